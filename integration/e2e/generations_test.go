package e2e_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

// readModels are the collections of the shop's projections.
var readModels = []string{"userReadModels", "orderReadModels", "itemReadModels"}

// TestStoppedProjectorDoesNotTouchANewGeneration stops a projector in the middle of its
// writes, puts documents of a new generation in the place of the read models, as a
// promotion does, and has the projector go on with the old one. It changes none of the new
// documents, neither by the writes that were under way nor by those after them, and
// acknowledges no event for which it finds one.
func TestStoppedProjectorDoesNotTouchANewGeneration(t *testing.T) {
	inParallel(t)
	w := shop.New(3000, 61)
	s := newScenario(t, w)
	store := capability[updateHolder](s, "hold updates back")
	s.start(1, 1)
	projector := s.started[len(s.started)-1]
	half := len(w.Events) / 2
	s.storeInto(s.events, w.Events[:half])
	s.awaitPublished(0.5)
	settled := func() bool {
		backlog, err := s.backend.Backlog()
		return err == nil && backlog == harness.Backlog{}
	}
	s.await("the first half projected", settled)

	store.HoldUpdates(4, heldFor)
	s.storeInto(s.events, w.Events[half:])
	s.await("updates under way", func() bool { return store.UpdatesToHold() == 0 })
	if err := projector.Signal(sigStop); err != nil {
		t.Fatal(err)
	}
	promoted := make(map[string]map[string]bson.Raw)
	for _, name := range readModels {
		promoted[name] = s.promoteByHand(s.models.Collection(name))
	}
	if err := projector.Signal(sigContinue); err != nil {
		t.Fatal(err)
	}

	s.awaitPublished(1)
	const superseded = "the generation of the projection is no longer the one that is written"
	s.await("the projector finding the new generation", func() bool {
		log, err := os.ReadFile(projector.Log)
		return err == nil && strings.Contains(string(log), superseded)
	})
	// The updates that were held back are carried out in the meantime.
	s.await("its late updates matching nothing", func() bool {
		return s.metric("projector", "penstock_projector_stale_writes_total") > 0
	})
	if settled() {
		t.Error("every event is acknowledged, also those of read models that have a new generation")
	}
	for name, documents := range promoted {
		for id, want := range documents {
			got, err := s.models.Collection(name).FindOne(t.Context(), bson.D{{Key: "_id", Value: id}}).Raw()
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s in %s is %s, %v; want %s", id, name, got, err, want)
			}
		}
	}
}

// promoteByHand puts documents of the second generation in the place of a collection's,
// and gives them.
func (s *scenario) promoteByHand(live *mongo.Collection) map[string]bson.Raw {
	s.t.Helper()
	cursor, err := live.Find(s.t.Context(), bson.D{})
	if err != nil {
		s.t.Fatal(err)
	}
	var documents []bson.Raw
	if err := cursor.All(s.t.Context(), &documents); err != nil || len(documents) == 0 {
		s.t.Fatalf("%d documents in %s: %v", len(documents), live.Name(), err)
	}
	promoted, next := make(map[string]bson.Raw), make([]bson.Raw, len(documents))
	for i, document := range documents {
		var fields bson.D
		if err := bson.Unmarshal(document, &fields); err != nil {
			s.t.Fatal(err)
		}
		if next[i], err = bson.Marshal(append(fields, bson.E{Key: "lastGeneration", Value: int64(2)})); err != nil {
			s.t.Fatal(err)
		}
		promoted[document.Lookup("_id").StringValue()] = next[i]
	}
	shadow := live.Database().Collection(live.Name() + ".generation-2")
	if _, err := shadow.InsertMany(s.t.Context(), next); err != nil {
		s.t.Fatal(err)
	}
	err = s.client.Database("admin").RunCommand(s.t.Context(), bson.D{
		{Key: "renameCollection", Value: live.Database().Name() + "." + shadow.Name()},
		{Key: "to", Value: live.Database().Name() + "." + live.Name()},
		{Key: "dropTarget", Value: true},
	}).Err()
	if err != nil {
		s.t.Fatal(err)
	}
	return promoted
}
