package e2e_test

import (
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// peopleProjections are a read model and a view of people.
const peopleProjections = `
projections:
  - name: people
    collection: people
    on:
      Moved: {set: {name: payload.name, street: payload.street}}
views:
  - name: streets
    collection: streets
    from:
      - aggregateType: Person
        key: state.street
        on:
          Moved: {set: {name: payload.name, street: "payload.street == null ? 'unknown' : payload.street"}}
        totals:
          inhabitants: {count: true}
`

// TestPeopleAreErased erases a person whose events the command masks, and one whose events the
// application has deleted. No collection has their names afterwards, also if a late message
// follows, and nobody else's read models change.
func TestPeopleAreErased(t *testing.T) { scene(t, peopleAreErased) }

func peopleAreErased(t *testing.T) {
	t.Helper()
	s := newScenarioOn(t, &workload.Workload{Name: "people", Projections: []byte(peopleProjections), Collections: []string{"people", "streets"}}, harness.TopicOptions{})
	s.start(1, 1)
	moved := func(id string, eventID int64, name, street string) workload.Event {
		e := counted(id, eventID, bson.D{{Key: "name", Value: name}, {Key: "street", Value: street}})
		e.AggregateType, e.EventType = "Person", "Moved"
		return e
	}
	const masked, deleted = "Ada Lovelace", "Grace Hopper"
	s.insert(
		moved("person-1", 1, masked, "Elm Road"), moved("person-1", 2, masked, "Mill Lane"),
		moved("person-2", 1, deleted, "Mill Lane"), moved("person-3", 1, "Alan Turing", "Mill Lane"),
	)
	model := func(collection, id string) string {
		document, err := s.models.Collection(collection).FindOne(t.Context(), bson.D{{Key: "_id", Value: id}}).Raw()
		if err != nil {
			return err.Error()
		}
		return document.String()
	}
	inhabitants := func(street, n string) bool {
		return strings.Contains(model("streets", street), `"inhabitants": {"$numberLong":"`+n+`"}`)
	}
	s.await("the read models", func() bool {
		return inhabitants("Mill Lane", "3") && strings.Contains(model("people", "person-1"), "Mill Lane") && strings.Contains(model("people", "person-3"), "Alan")
	})
	before := model("people", "person-3")

	run := func(code int, says string, args ...string) {
		t.Helper()
		out, err := s.Projector(t.Context(), append([]string{"erase"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		if all := string(out.Stdout) + string(out.Stderr); out.Status != code || !strings.Contains(all, says) {
			t.Fatalf("projector erase %s: status %d, want %d and %q\n%s", strings.Join(args, " "), out.Status, code, says, all)
		}
	}
	run(2, "--why is not set", "--aggregate=person-1", "--yes")
	run(1, "repeat it with --yes", "--aggregate=person-1", "--why=request 17")
	run(1, "are left", "--aggregate=person-1", "--value="+masked, "--why=request 17", "--yes") // Its events have the name.
	run(0, "nothing is left", "--aggregate=person-1", "--mask=payload.name,payload.street", "--value="+masked, "--value=Elm Road", "--why=request 17", "--yes")

	if _, err := s.events.DeleteMany(t.Context(), bson.D{{Key: "aggregateId", Value: "person-2"}}); err != nil {
		t.Fatal(err)
	}
	run(0, "nothing is left", "--aggregate=person-2", "--value="+deleted, "--why=request 18", "--yes")
	run(0, "nothing is left", "--aggregate=person-2", "--value="+deleted, "--why=request 18", "--yes")

	// An event that no projector has got yet, because the application has deleted it before.
	run(0, "nothing is left", "--aggregate=person-4", "--why=request 19", "--yes")

	// The messages of the erased events come again, with the names.
	send := s.eventSender()
	send("late-3", moved("person-4", 1, deleted, "Elm Road"))
	send("late-1", moved("person-1", 2, masked, "Elm Road"))
	send("late-2", moved("person-2", 1, deleted, "Elm Road"))
	s.insert(moved("person-1", 3, "", "Mill Lane"))
	s.await("the event after the erasure", func() bool {
		backlog, err := s.backend.Backlog()
		return err == nil && backlog.Active == 0 && inhabitants("Mill Lane", "2")
	})
	for _, db := range []*mongo.Database{s.models, s.state, s.events.Database()} {
		names, err := db.ListCollectionNames(t.Context(), bson.D{})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			cursor, err := db.Collection(name).Find(t.Context(), bson.D{})
			if err != nil {
				t.Fatal(err)
			}
			for cursor.Next(t.Context()) {
				if text := cursor.Current.String(); strings.Contains(text, masked) || strings.Contains(text, deleted) {
					t.Errorf("collection %s has %s", name, text)
				}
			}
			if err := cursor.Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if after := model("people", "person-3"); after != before {
		t.Errorf("the read model of another person was %s, and is %s", before, after)
	}
	s.steps(
		step{"projector verify --grace=5s", 0, "people, generation 1: 2 aggregates … every read model equals the fold of its events"},
		step{"projector audit --command=erase", 0, "request 17 … sha256:"},
	)
}
