package bench

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

// countEvery is the interval at which the progress of jobs is read from MongoDB.
const countEvery = 50 * time.Millisecond

// projectorRebuild builds all read models of a stored history, while no event arrives. Each
// projection reads all events, so the row counts an event once for each.
func projectorRebuild() row {
	return row{
		name: "projector/rebuild", title: "Projector, building the read models of 3 projections while no event arrives, events read",
		measure: func(ctx context.Context, b *bench) (_ reading, err error) {
			e, err := b.newEnvironment(ctx, with{})
			if err != nil {
				return reading{}, err
			}
			defer func() { err = errors.Join(err, e.close()) }()
			w := shop.New(b.scale.rebuild, 1)
			if err := e.load(ctx, w.Events); err != nil {
				return reading{}, err
			}
			var r reading
			s := e.specify(e.backend.Bus().Topic)
			s.Events = len(w.Events)
			if err := e.limit(ctx, &r, titleFind, limitFind, s); err != nil {
				return reading{}, err
			}
			started := time.Now()
			p, err := e.pipeline.StartProjector("projector-0")
			if err != nil {
				return reading{}, err
			}
			n := projections * len(w.Events)
			m, err := e.measure(ctx, "read by builds", n, e.built(ctx), p)
			if err != nil {
				return reading{}, err
			}
			if err := e.awaitLive(ctx); err != nil {
				return reading{}, err
			}
			live := figure{"from the start of the process until all are verified and live", unitMillis, float64(time.Since(started).Milliseconds())}
			r.figures, r.costs = []figure{{"", unitRate, m.rate}, live}, m.costs
			if err := e.pipeline.Stop(ctx); err != nil {
				return reading{}, err
			}
			// All projections together write each aggregate once.
			s.Events = n
			if err := e.limit(ctx, &r, titleWrite, limitWrite, s); err != nil {
				return reading{}, err
			}
			r.limits = append(r.limits, oneAfterTheOther(r.limits)...)
			return r, e.check(ctx, w, nil)
		},
	}
}

// built returns a function that counts the events whose read models builds have stored.
func (e *environment) built(ctx context.Context) func() int {
	state := e.client.Database(harness.StateDatabase)
	var counted time.Time
	var total int
	return func() int {
		if time.Since(counted) >= countEvery {
			// After an error the count stays, and is read again.
			if n, err := builtEvents(ctx, state); err == nil {
				total = n
			}
			counted = time.Now()
		}
		return total
	}
}

// builtEvents adds up the events of all builds. The counts of a build are in its ranges until
// it is done, and in the job afterwards.
func builtEvents(ctx context.Context, state *mongo.Database) (total int, err error) {
	type counted struct {
		ID     string `bson:"_id"`
		State  string `bson:"state"`
		Counts struct {
			Events int `bson:"events"`
		} `bson:"counts"`
	}
	sum := func(collection string, filter bson.D) ([]counted, error) {
		cursor, err := state.Collection(collection).Find(ctx, filter)
		if err != nil {
			return nil, err
		}
		var found []counted
		if err := cursor.All(ctx, &found); err != nil {
			return nil, err
		}
		for _, c := range found {
			total += c.Counts.Events
		}
		return found, nil
	}
	builds, err := sum("jobs", bson.D{{Key: "kind", Value: "build"}})
	if err != nil {
		return 0, err
	}
	running := bson.A{}
	for _, b := range builds {
		if b.State != "done" {
			running = append(running, b.ID)
		}
	}
	_, err = sum("job_ranges", bson.D{{Key: "job", Value: bson.D{{Key: "$in", Value: running}}}})
	return total, err
}
