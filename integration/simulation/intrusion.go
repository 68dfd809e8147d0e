package simulation

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/virtual"
)

// intrusion is the kind of fault in which an application writes into a collection of read models:
// a document of its own, and a field of a read model.
const intrusion = "write into read models"

// intruder is the text that the application writes.
const intruder = "Mallory"

// drawIntrusions draws the intrusions of a plan, unless the ledger moves to another collection, or a
// restored backup would bring back what an application has deleted.
func drawIntrusions(p *Plan) {
	r := rand.New(rand.NewPCG(p.Seed, 0x696e7472756465))
	if r.IntN(4) > 0 || p.Moves || p.has(restoration) {
		return
	}
	for range 1 + r.IntN(3) {
		p.Faults = append(p.Faults, Fault{At: time.Duration(r.Int64N(int64(p.Length))), For: time.Duration(r.Int64N(int64(p.Length / 2))), Kind: intrusion, Way: r.IntN(1 << 16)})
	}
}

// intrude writes into the read models of the ledger, and takes the document of the application away after
// a while. Until then, no promotion may delete it. Before the first read model, projectors would refuse
// to start.
func (w *World) intrude(ctx context.Context, f Fault) {
	models := w.models("ledger")
	if len(models) == 0 {
		return
	}
	insisting := context.WithoutCancel(ctx)
	collection := w.stores.client.Database(modelsDatabase).Collection(w.named("ledger"))
	note := fmt.Sprint("note-", f.Way)
	// Projectors look for such documents at the end of the verification, seconds before the rename.
	for slices.Contains([]string{"verifying", "promoting"}, text(withID(w.state("projections"), w.named("ledger")), "building", "state")) && ctx.Err() == nil {
		wait(ctx, 100*time.Millisecond)
	}
	until(insisting, func() error {
		_, err := collection.InsertOne(insisting, bson.D{{Key: "_id", Value: note}, {Key: "by", Value: intruder}})
		return err
	})
	changed := text(models[f.Way%len(models)], "_id")
	_, _ = collection.UpdateByID(insisting, changed, bson.D{{Key: "$set", Value: bson.D{{Key: "by", Value: intruder}}}})
	wait(ctx, f.For)
	kept := withID(w.stores.Documents(modelsDatabase, collection.Name()), note) != nil
	until(insisting, func() error {
		_, err := collection.DeleteOne(insisting, bson.D{{Key: "_id", Value: note}})
		return err
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.intruded = append(w.intruded, changed)
	if !kept {
		w.trampled = append(w.trampled, fmt.Sprintf("at %v: the document %s of an application is gone", time.Since(w.history.began), note))
	}
}

// mend repairs the read models into which an application has written, and no others.
func (w *World) mend(ctx context.Context) {
	for _, id := range w.intruded {
		_ = w.command(ctx, virtual.Projector, "verify", "--projection", w.named("ledger"), "--aggregate", id, "--repair", "--grace", "5s", "--yes", "--why", "simulation")
	}
}

// checkFindings finds values of read models in the findings of verifications.
func checkFindings(_ context.Context, o *outcome) (findings []string, err error) {
	for _, d := range o.world.state("findings") {
		if bytes.Contains(d, []byte(intruder)) {
			findings = append(findings, "a finding has a value: "+d.String())
		}
	}
	return findings, nil
}
