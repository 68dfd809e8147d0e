package app

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/operate"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

// targets adapts the engine, and the parts that must know its targets, to the follower.
type targets struct {
	*engine.Engine
	parked     *park.Store
	readModels *mongo.Database
	compiler   *operate.Compiler
	// fromZero is set if event ids begin at 0.
	fromZero bool
	// prepared has the collections of live generations that exist.
	prepared map[string]bool
}

var _ catalog.Engine = (*targets)(nil)

func newTargets(eng *engine.Engine, parked *park.Store, db *mongo.Database, compiler *operate.Compiler, fromZero bool) *targets {
	return &targets{Engine: eng, parked: parked, readModels: db, compiler: compiler, fromZero: fromZero, prepared: map[string]bool{}}
}

// Able returns why this process cannot fold events into a target; nil if it can.
func (t *targets) Able(target catalog.Target) error {
	_, err := t.compiler.Compile(target.Definition)
	return err
}

// Set gives the engine its targets.
func (t *targets) Set(ctx context.Context, all []catalog.Target) error {
	next := make([]engine.Target, len(all))
	served := make([]park.Served, len(all))
	var live []string
	for i, target := range all {
		p, err := t.compiler.Compile(target.Definition)
		if err != nil {
			return err
		}
		next[i] = engine.Target{Projection: p, Generation: target.Generation, Collection: target.Collection, Building: target.Building, Defers: target.Defers, Erased: target.Erased, FromZero: t.fromZero}
		served[i] = park.Served{Projection: target.Projection, Generation: target.Generation}
		if !target.Building && !t.prepared[target.Collection] {
			live = append(live, target.Collection)
		}
	}
	attempt, cancel := mongox.Timeout(ctx, config.AttemptTimeout)
	err := mongox.Explain(attempt, t.makeCollections(attempt, live))
	cancel()
	if err != nil {
		return err
	}
	if err := t.Engine.Set(next); err != nil {
		return err
	}
	t.parked.Serve(served)
	return nil
}

// makeCollections makes the collections of live generations.
func (t *targets) makeCollections(ctx context.Context, live []string) error {
	if len(live) == 0 {
		return nil
	}
	if err := readmodel.Prepare(ctx, t.readModels, live); err != nil {
		return err
	}
	for _, collection := range live {
		t.prepared[collection] = true
	}
	return nil
}
