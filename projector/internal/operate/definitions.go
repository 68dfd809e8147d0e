package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

// definitions finds the projections that jobs name. It looks in the catalog, then among
// those of this process.
type definitions struct {
	*Compiler
	catalog *mongo.Collection
	// mine reports whether a projection of that pipeline belongs to the event store of this
	// process. Two pipelines can share the catalog, and each has its own events.
	mine func(pipeline string) bool
	// fromZero is set if event ids begin at 0.
	fromZero bool
}

// newDefinitions makes the definitions of a pod, which works for its own pipeline only.
func newDefinitions(s *config.Stores, c config.Config, compiler *Compiler) *definitions {
	own := c.Pipeline().String()
	return &definitions{compiler, s.State.Collection(catalog.CatalogName), func(pipeline string) bool { return pipeline == own }, c.Fields.FromZero()}
}

// newCommandDefinitions makes the definitions of a command. Its configuration names the
// event store of the pipeline, but not always the subscription.
func newCommandDefinitions(s *config.Stores, c config.Config, declared []*projection.Projection) *definitions {
	return &definitions{NewCompiler(declared), s.State.Collection(catalog.CatalogName), c.Pipeline().SameEvents, c.Fields.FromZero()}
}

// errOtherPipeline says that another pipeline owns a projection.
var errOtherPipeline = errors.New("its events are in another event store than the configured one: set PENSTOCK_EVENTS_DATABASE and PENSTOCK_EVENTS_COLLECTION to that of its pipeline")

// entry reads the catalog entry of a projection; nil if there is none.
func (d *definitions) entry(ctx context.Context, name string) (*catalog.Entry, error) {
	var e catalog.Entry
	err := d.catalog.FindOne(ctx, bson.D{{Key: "_id", Value: name}}).Decode(&e)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read projection %s in the catalog: %w", name, err)
	}
	return &e, nil
}

// errNotLive says that a projection has no live generation that projectors keep up to date.
var errNotLive = errors.New("not live")

// live returns the number of the generation that readers see. The error is [errNotLive] if
// there is none that projectors keep up to date: then read models that are missing or behind
// are not wrong, and a repair would write them too early.
func (d *definitions) live(ctx context.Context, name string) (int64, error) {
	e, err := d.entry(ctx, name)
	switch {
	case err != nil:
		return 0, err
	case e != nil && !d.mine(e.Pipeline):
		return 0, fmt.Errorf("projection %s belongs to the pipeline %s: %w", name, e.Pipeline, errOtherPipeline)
	case e != nil && e.RetiredAt != nil:
		return 0, fmt.Errorf("projection %s is %w: no projector declares it any more", name, errNotLive)
	case e != nil && e.Live != nil && e.Live.Frozen:
		return 0, fmt.Errorf("projection %s is %w: it was retired, and no projector writes it until its next generation is built", name, errNotLive)
	case e != nil && e.Live != nil:
		return e.Live.Generation, nil
	case e != nil && e.Building != nil:
		return 0, fmt.Errorf("projection %s is %w yet: generation %d is %s", name, errNotLive, e.Building.Generation, e.Building.State)
	case e != nil:
		return 0, fmt.Errorf("projection %s is %w yet", name, errNotLive)
	case d.named(name) == nil:
		return 0, fmt.Errorf("projection %s is neither in the catalog nor declared: check its name", name)
	}
	return 0, fmt.Errorf("projection %s is %w yet: no projector has started with it", name, errNotLive)
}

func (d *definitions) named(name string) *projection.Projection {
	i := slices.IndexFunc(d.declared, func(p *projection.Projection) bool { return p.Name() == name })
	if i < 0 {
		return nil
	}
	return d.declared[i]
}

// target returns a generation of a projection. The error is [job.ErrNotHere] if only another
// process has its code, or if it belongs to another pipeline. The error is permanent if the
// catalog does not have the generation.
func (d *definitions) target(ctx context.Context, name string, number int64) (engine.Target, error) {
	e, err := d.entry(ctx, name)
	if err != nil {
		return engine.Target{}, err
	}
	var definition catalog.Definition
	t := engine.Target{FromZero: d.fromZero}
	switch {
	case e == nil && number == catalog.First && d.named(name) != nil:
		p := d.named(name)
		t.Projection, t.Collection = p, p.Collection()
		return t, nil
	case e == nil && number == catalog.First:
		return t, fmt.Errorf("projection %s is not declared here: %w", name, job.ErrNotHere)
	case e != nil && !d.mine(e.Pipeline):
		return t, fmt.Errorf("projection %s belongs to the pipeline %s: %w", name, e.Pipeline, job.ErrNotHere)
	case e != nil && e.Live != nil && e.Live.Generation == number:
		definition, t.Collection = e.Live.Definition, e.Live.Collection
	case e != nil && e.Building != nil && e.Building.Generation == number:
		definition, t.Collection, t.Building = e.Building.Definition, e.Building.Shadow, true
	default:
		return t, noGeneration(name, number)
	}
	if number > catalog.First {
		t.Generation = number
	}
	t.Projection, err = d.Compile(definition)
	switch {
	case errors.Is(err, errNoCode):
		return t, fmt.Errorf("the code of generation %d of projection %s is not in this program, only in that of the projectors: %w", number, name, job.ErrNotHere)
	case err != nil:
		return t, job.Permanent(fmt.Errorf("compile generation %d of projection %s: %w", number, name, err))
	}
	return t, nil
}

func noGeneration(name string, number int64) error {
	return job.Permanent(fmt.Errorf("projection %s has no generation %d any more", name, number))
}

// current returns an error if a generation is not in the catalog any more, which is permanent, or
// if a promotion is just replacing it: then its collection may be that of the next one already.
func (d *definitions) current(ctx context.Context, name string, number int64) error {
	e, err := d.entry(ctx, name)
	if err != nil || e == nil {
		return err
	}
	b := e.Building
	switch {
	case b != nil && b.Generation == number:
		return nil
	case e.Live == nil || e.Live.Generation != number:
		return noGeneration(name, number)
	case b != nil && b.State == catalog.Promoting:
		return fmt.Errorf("generation %d of projection %s is just being replaced by generation %d", number, name, b.Generation)
	}
	return nil
}

// succeeded reports whether a generation that is being built can replace a live one at any time.
func (d *definitions) succeeded(ctx context.Context, name string, live int64) (bool, error) {
	e, err := d.entry(ctx, name)
	if err != nil || e == nil || e.Live == nil || e.Live.Generation != live {
		return false, err
	}
	return e.Replaceable(), nil
}

// VerificationOptions are the options of the workers of a pod that concern verifications. The pod
// works for its own pipeline only.
func VerificationOptions(c config.Config, s *config.Stores, compiler *Compiler) history.Options {
	return newDefinitions(s, c, compiler).options(s)
}

func (d *definitions) options(s *config.Stores) history.Options {
	return history.Options{
		Repairer: readmodel.NewRepairer(s.ReadModels), Listing: history.NewDatabase(s.ReadModels),
		Views: readmodel.NewViewDocuments(s.ReadModels), Findings: history.NewFindingStore(s.State),
		Target: d.target, Current: d.current, Succeeded: d.succeeded,
	}
}

// newVerifier makes the worker of a command that verifies.
func newVerifier(c config.Config, s *config.Stores, d *definitions, store history.Store, parked *park.Store, logger zerolog.Logger) *history.Workers {
	o := d.options(s)
	o.Events = eventstore.NewReader(s.Events, c.EventFields(), logger)
	o.Store, o.Parking, o.Pace, o.Logger = store, parked, commandPace(c), logger
	return history.New(o)
}

// commandPace is the rate of a command, which is a process of its own. It does not see the
// live events of the pods, so it does not yield to them.
func commandPace(c config.Config) *history.Pace {
	return history.NewPace(history.PaceOptions{Rate: float64(c.History.CommandRate())})
}
