package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// Projections of a projector that is stopped while they change. The second generation of
// tallies has no document for an aggregate that was only opened. That of drafts has none
// for an aggregate that was withdrawn.
const (
	stoppedBefore = `projections:
  - {name: tallies, collection: tallies, on: {Opened: {set: {open: "true"}}, Counted: {inc: {n: payload.n}, set: {factor: "1"}}}}
  - {name: drafts, collection: drafts, on: {Opened: {set: {open: "true"}}, Counted: {inc: {n: payload.n}}}}
`
	stoppedAfter = `  - {name: tallies, collection: tallies, on: {Counted: {inc: {n: payload.n * 2}, set: {factor: "2"}}}}
  - {name: drafts, collection: drafts, on: {Opened: {set: {open: "true"}}, Counted: {inc: {n: payload.n * 2}}, Withdrawn: {delete: true}}}
`
)

// foldTallies and foldDrafts are independent folds of the second generations.
func foldTallies(events []workload.Event) (string, bson.M) {
	var document bson.M
	for _, ev := range events {
		if ev.EventType != "Counted" {
			continue
		}
		if document == nil {
			document = bson.M{"n": int64(0), "factor": int64(2)}
		}
		document["n"] = document["n"].(int64) + 2
	}
	return "tallies", document
}

func foldDrafts(events []workload.Event) (string, bson.M) {
	var document bson.M
	for _, ev := range events {
		if ev.EventType == "Withdrawn" {
			document = nil
			continue
		}
		if document == nil {
			document = bson.M{}
		}
		if ev.EventType == "Opened" {
			document["open"] = true
			continue
		}
		n, _ := document["n"].(int64)
		document["n"] = n + 2
	}
	return "drafts", document
}

// event stores one event of that type.
func (s *tallies) event(aggregate string, id int64, eventType string) {
	s.t.Helper()
	ev := counted(aggregate, id, bson.D{{Key: "n", Value: int64(1)}})
	ev.EventType = eventType
	s.insert(ev)
}

// documents reads the documents of a collection that match a filter, by their ids.
func (s *tallies) documents(collection string, filter bson.D) map[string]bson.Raw {
	s.t.Helper()
	var all []bson.Raw
	cursor, err := s.models.Collection(collection).Find(s.t.Context(), filter)
	if err == nil {
		err = cursor.All(s.t.Context(), &all)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	found := make(map[string]bson.Raw, len(all))
	for _, document := range all {
		found[document.Lookup("_id").StringValue()] = document
	}
	return found
}

// foreign returns the ids of the documents that belong to the first generation.
func (s *tallies) foreign(collection string) string {
	s.t.Helper()
	var ids []string
	for id := range s.documents(collection, bson.D{{Key: "lastGeneration", Value: nil}}) {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

// watchForeign records the ids of first-generation documents that are inserted into a
// collection from now on, and returns them when it is called. A sweep may remove one before
// others are inserted.
func (s *tallies) watchForeign(collection string) func() string {
	s.t.Helper()
	stream, err := s.models.Collection(collection).Watch(s.t.Context(), bson.A{}, options.ChangeStream().SetMaxAwaitTime(pollInterval()))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = stream.Close(context.Background()) })
	var ids []string
	return func() string {
		for stream.TryNext(s.t.Context()) {
			document, ok := stream.Current.Lookup("fullDocument").DocumentOK()
			if ok && stream.Current.Lookup("operationType").StringValue() == "insert" && document.Lookup("lastGeneration").Type == 0 {
				ids = append(ids, document.Lookup("_id").StringValue())
			}
		}
		if stream.Err() != nil {
			s.t.Fatal(stream.Err())
		}
		slices.Sort(ids)
		return strings.Join(ids, " ")
	}
}

// TestStoppedProjectorDoesNotTouchANewGeneration stops a projector while the server holds
// an update and three inserts of it, and changes the projections. The promotion goes on
// without the stopped projector. Its update then changes no document of the new generation.
// The documents that its inserts make are folded again: by the aggregate's next event, or
// by the reconciler. The other projectors settle its received messages.
func TestStoppedProjectorDoesNotTouchANewGeneration(t *testing.T) {
	scene(t, stoppedProjectorDoesNotTouchANewGeneration)
}

func stoppedProjectorDoesNotTouchANewGeneration(t *testing.T) {
	t.Helper()
	s := &tallies{scenario: newScenarioOn(t, &workload.Workload{Name: "tallies", Projections: []byte(stoppedBefore)},
		harness.TopicOptions{LockDuration: 5 * time.Second}, "PENSTOCK_RECONCILE=10s")}
	store := capability[writeHolder](s.scenario, "hold writes back")
	s.start(1, 2)
	s.store(3)
	for i := range 10 {
		for id := range int64(3) {
			s.event(fmt.Sprint("b-", i), id+1, "Counted")
		}
	}
	s.await("the first generation complete", func() bool {
		filter := bson.D{{Key: "lastEventId", Value: 3}}
		return len(s.documents("tallies", filter)) == tallied+10 && len(s.documents("drafts", filter)) == tallied+10
	})

	// The second projector stops first, as in a rolling update. So all held writes are from
	// the first one.
	var old *harness.Process
	for _, process := range s.Running() {
		switch process.Name {
		case "projector-0":
			old = process
		case "projector-1":
			s.stopped(process)
		}
	}
	for _, held := range []struct{ command, collection, aggregate, eventType string }{
		{"insert", "tallies", "opened", "Opened"},
		{"insert", "tallies", "opened-counted", "Opened"},
		{"insert", "drafts", "withdrawn", "Opened"},
		{"update", "drafts", "b-0", "Counted"},
	} {
		store.HoldWrites(held.command, held.collection, 1)
		id := int64(1)
		if held.aggregate == "b-0" {
			id = 4
		}
		s.event(held.aggregate, id, held.eventType)
		s.await(fmt.Sprintf("the %s of %s is on its way", held.command, held.aggregate), func() bool { return store.WritesToHold() == 0 })
		if held.collection == "tallies" {
			// Without this wait, this insert may be held instead of withdrawn's.
			s.await(held.aggregate+" in drafts", func() bool {
				return len(s.documents("drafts", bson.D{{Key: "_id", Value: held.aggregate}})) == 1
			})
		}
	}
	if err := old.Signal(sigStop); err != nil {
		t.Fatal(err)
	}
	s.declare(stoppedAfter, "PENSTOCK_RECONCILE=10s")
	s.startProjector(2)
	s.startProjector(3)
	s.event("withdrawn", 2, "Withdrawn")
	s.store(1)
	for _, name := range []string{"tallies", "drafts"} {
		s.live(name, 2)
	}
	s.store(1)

	// Only the stopped projector could change these documents.
	quiet := bson.D{{Key: "_id", Value: bson.Regex{Pattern: "^b-"}}}
	s.await("the quiet aggregates projected", func() bool {
		d := s.documents("drafts", quiet)["b-0"]
		return d != nil && d.Lookup("lastEventId").AsInt64() == 4
	})
	promoted := map[string]map[string]bson.Raw{"tallies": s.documents("tallies", quiet), "drafts": s.documents("drafts", quiet)}
	for name := range promoted {
		if ids := s.foreign(name); ids != "" {
			t.Fatalf("%s are of the first generation in %s before the writes that are held", ids, name)
		}
	}
	inTallies, inDrafts := s.watchForeign("tallies"), s.watchForeign("drafts")
	store.HealStore()
	s.await("documents of the first generation in the new collections", func() bool {
		return inTallies() == "opened opened-counted" && inDrafts() == "withdrawn"
	})
	if err := old.Signal(sigContinue); err != nil {
		t.Fatal(err)
	}
	s.event("opened-counted", 2, "Counted")
	s.await("the document folded anew by its next event", func() bool {
		d := s.documents("tallies", bson.D{{Key: "_id", Value: "opened-counted"}, {Key: "lastGeneration", Value: 2}})["opened-counted"]
		return d != nil && d.Lookup("n").AsInt64() == 2 && d.Lookup("open").Type == 0
	})
	s.store(1)
	s.await("the documents without a later event removed", func() bool {
		return s.foreign("tallies") == "" && s.foreign("drafts") == ""
	})
	s.settled()
	for name, documents := range promoted {
		for id, now := range s.documents(name, quiet) {
			if !bytes.Equal(now, documents[id]) {
				t.Errorf("%s in %s was %s, and is %s", id, name, documents[id], now)
			}
		}
	}
}

// settled waits until every message is settled. It then checks that every read model equals
// the fold of its events, by an independent fold and by the command.
func (s *tallies) settled() {
	s.t.Helper()
	s.ready()
	s.await("all messages settled", func() bool {
		backlog, err := s.backend.Backlog()
		return err == nil && backlog == harness.Backlog{}
	})
	for _, fold := range []workload.Fold{foldTallies, foldDrafts} {
		s.workload.Fold = fold
		s.awaitReadModels()
	}
	results, err := s.Verify(s.t.Context())
	if err != nil || len(results) != 2 {
		s.t.Fatalf("verified %+v: %v", results, err)
	}
	for _, r := range results {
		if r.State != "done" || len(r.Findings) > 0 {
			s.t.Errorf("the verification of %s is %s: %s %v", r.Projection, r.State, r.Reason, r.Findings)
		}
	}
}
