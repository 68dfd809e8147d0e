package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// TestProjectorKilledDuringACreation kills a projector within the transaction in which it
// creates a read model, and changes the projection at once. The server keeps the transaction
// for a minute or more. Only that read model and the promotion wait for it: the other
// projectors start and create read models, and no reader waits behind the promotion.
func TestProjectorKilledDuringACreation(t *testing.T) { scene(t, projectorKilledDuringACreation) }

func projectorKilledDuringACreation(t *testing.T) {
	t.Helper()
	s := newDrafts(t)
	store, killed := s.killInACreation()
	longest := s.readFirst()
	s.declare(drafts("payload.n * 2"))
	s.startProjector(2)
	s.startProjector(3)
	s.event("third", 1, "Opened")
	s.await("another read model", func() bool { return s.opened("third") })
	if took := time.Since(killed); took > 30*time.Second {
		t.Errorf("another read model waited for %v", took)
	}
	s.await("the read model of the killed projector", func() bool { return s.opened("second") })
	s.live("drafts", 2)
	if wait := longest(); wait >= 2*time.Second {
		t.Errorf("a reader waited for %v", wait)
	}
	store.HealStore()
	s.event("first", 2, "Counted")
	s.event("second", 2, "Counted")
	s.event("third", 2, "Counted")
	s.ready()
	s.awaitReadModels()
	if results, err := s.Verify(t.Context()); err != nil || len(results) != 1 || results[0].State != "done" || len(results[0].Findings) > 0 {
		t.Errorf("verified %+v: %v", results, err)
	}
}

// drafts declares a projection whose read models are created in transactions.
func drafts(n string) string {
	return fmt.Sprintf("  - {name: drafts, collection: drafts, on: {Opened: {set: {open: 'true'}}, Counted: {inc: {n: %s}}, Withdrawn: {delete: true}}}\n", n)
}

func newDrafts(t *testing.T) *tallies {
	t.Helper()
	return &tallies{scenario: newScenarioOn(t, &workload.Workload{Projections: []byte("projections:\n" + drafts("payload.n")), Oracle: workload.Oracle{Fold: foldDrafts}},
		harness.TopicOptions{LockDuration: 5 * time.Second})}
}

// foldDrafts is an independent fold of the second generation.
func foldDrafts(events []workload.Event) (string, bson.M) {
	document := bson.M{"open": true}
	if counts := len(events) - 1; counts > 0 {
		document["n"] = int64(2 * counts)
	}
	return "drafts", document
}

// event stores one event of that type.
func (s *tallies) event(aggregate string, id int64, eventType string) {
	s.t.Helper()
	ev := counted(aggregate, id, one)
	ev.EventType = eventType
	s.insert(ev)
}

// opened reports whether the read model of an aggregate exists.
func (s *tallies) opened(aggregate string) bool {
	return s.documents(s.models.Collection("drafts"), bson.E{Key: "_id", Value: aggregate}) == 1
}

// killInACreation starts a projector, and kills it within the transaction in which it creates
// the read model second.
func (s *tallies) killInACreation() (store writeHolder, killed time.Time) {
	s.t.Helper()
	store = capability[writeHolder](s.scenario, "hold writes back")
	s.start(1, 1)
	s.event("first", 1, "Opened")
	s.await("the first read model", func() bool { return s.opened("first") })
	store.HoldWrites("commitTransaction", "", 1)
	s.event("second", 1, "Opened")
	s.await("a creation is being committed", func() bool { return store.WritesToHold() == 0 })
	s.projectors()[0].Kill()
	return store, time.Now()
}

// readFirst reads a read model of drafts again and again until the result is called, which
// gives the longest time that a read took.
func (s *tallies) readFirst() (longest func() time.Duration) {
	ctx, stop := context.WithCancel(s.t.Context())
	var reading sync.WaitGroup
	var most time.Duration
	tick := time.NewTicker(10 * time.Millisecond)
	reading.Go(func() {
		defer tick.Stop()
		for ctx.Err() == nil {
			begun := time.Now()
			err := s.models.Collection("drafts").FindOne(ctx, bson.D{{Key: "_id", Value: "first"}}).Err()
			if errors.Is(err, mongo.ErrNoDocuments) {
				s.t.Error("a reader did not find the first read model")
			}
			most = max(most, time.Since(begun))
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	end := sync.OnceFunc(func() {
		stop()
		reading.Wait()
	})
	s.t.Cleanup(end)
	return func() time.Duration {
		end()
		return most
	}
}
