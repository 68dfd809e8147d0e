package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

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
	s := newScenarioOn(t, &workload.Workload{Projections: []byte(peopleProjections), Collections: []string{"people", "streets"}}, harness.TopicOptions{})
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

	run := s.erase
	run(2, "--why is not set", "--aggregate=person-1", "--yes")
	run(1, "repeat it with --yes", "--aggregate=person-1", "--why=request 17")
	run(1, "left: repeat the command", "--aggregate=person-1", "--value="+masked, "--why=request 17", "--yes") // Its events have the name.
	run(0, "nothing is left", "--aggregate=person-1", "--mask=payload.name,payload.street", "--value="+masked, "--value=Elm Road", "--why=request 17", "--yes")

	if _, err := s.events.DeleteMany(t.Context(), bson.D{{Key: "aggregateId", Value: "person-2"}}); err != nil {
		t.Fatal(err)
	}
	run(0, "nothing is left", "--aggregate=person-2", "--value="+deleted, "--why=request 18", "--yes")
	run(0, "nothing is left", "--aggregate=person-2", "--value="+deleted, "--why=request 18", "--yes")

	// An event that no projector has got yet, because the application has deleted it before.
	run(1, "no place that the command searches had this id", "--aggregate=person-4", "--why=request 19", "--yes")

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
	s.findNothing(masked, deleted)
	if after := model("people", "person-3"); after != before {
		t.Errorf("the read model of another person was %s, and is %s", before, after)
	}
	s.steps(
		step{"projector verify --grace=5s", 0, "people, generation 1: 2 aggregates … every read model equals the fold of its events"},
		step{"projector audit --command=erase", 0, "request 17 … sha256:"},
	)

	// The id of the person who was not known yet was erased by mistake.
	s.insert(moved("person-4", 1, "Edsger Dijkstra", "Elm Road"))
	s.steps(
		step{"projector verify --grace=5s", 1, "person-4 … behind … the aggregate was erased, and has events again"},
		step{"projector verify --grace=5s --repair --yes", 1, "person-4 … behind … projector verify --aggregate person-4 --repair"},
		step{"projector verify --grace=5s --aggregate=person-4 --repair --yes", 1, "person-4 … behind … repaired"},
		step{"projector verify --grace=5s", 0, "people, generation 1: 3 aggregates … every read model equals the fold of its events"},
	)
}

// erase runs the command, and expects its status and a text.
func (s *scenario) erase(code int, says string, args ...string) {
	s.t.Helper()
	out, err := s.Projector(s.t.Context(), append([]string{"erase"}, args...)...)
	if err != nil {
		s.t.Fatal(err)
	}
	if all := string(out.Stdout) + string(out.Stderr); out.Status != code || !strings.Contains(all, says) {
		s.t.Fatalf("projector erase %s: status %d, want %d and %q\n%s", strings.Join(args, " "), out.Status, code, says, all)
	}
}

// findNothing searches all collections for texts.
func (s *scenario) findNothing(texts ...string) {
	s.t.Helper()
	for _, collections := range s.dump(s.models, s.state, s.events.Database()) {
		for _, c := range collections {
			found := fmt.Sprint(c.documents)
			for _, text := range texts {
				if strings.Contains(found, text) {
					s.t.Errorf("collection %s has %s: %s", c.collection, text, found)
				}
			}
		}
	}
}
