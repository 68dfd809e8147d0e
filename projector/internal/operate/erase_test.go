package operate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/audit"
	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/deadletter"
	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

const peopleYAML = `
projections:
  - name: people
    collection: people
    on:
      Came: {set: {name: payload.name}}
  - name: guests
    collection: guests
    on:
      Came: {set: {name: payload.name}}
      Left: {delete: true}
views:
  - name: towns
    collection: towns
    from:
      - aggregateType: Person
        key: state.town
        as: people
        on:
          Came: {set: {name: "payload.name", town: payload.town}}
        totals:
          inhabitants: {count: true}
`

// taken is a queue from which messages can be removed. It hands out the last ones first, and has locked
// as many.
type taken struct {
	peeked
	locked int
}

func (q *taken) Receive(ctx context.Context, limit int) ([]deadletter.Message, error) {
	free := len(q.messages) - q.locked
	page := slices.Clone(q.messages[max(free-limit, 0):free])
	q.locked += len(page)
	if len(page) == 0 {
		<-ctx.Done()
	}
	return page, ctx.Err()
}

func (q *taken) Complete(_ context.Context, m *deadletter.Message) error {
	sequence := m.Sequence
	q.messages = slices.DeleteFunc(q.messages, func(m deadletter.Message) bool { return m.Sequence == sequence })
	q.locked--
	return nil
}

func (q *taken) Abandon(context.Context, *deadletter.Message) error {
	q.locked = 0
	return nil
}

// The person of the tests, and what must not be left.
const personName = "Ada Lovelace"

// people is a world with copies of one person and of another one.
type people struct {
	t     *testing.T
	e     *Environment
	s     *stored
	out   *bytes.Buffer
	queue *taken
	id    any
	text  string
}

func newPeople(t *testing.T, id any, text string) *people {
	t.Helper()
	e, s, out := emptyState(t)
	w := &people{t: t, e: e, s: s, out: out, queue: &taken{}, id: id, text: text}
	e.Config.Fields = event.DefaultFields()
	e.Config.MongoDB.EventsDatabase = s.ReadModels.Name()
	_, err := s.Events.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "aggregateId", Value: 1}, {Key: "eventId", Value: 1}}})
	w.check(err)
	w.check(readmodel.PrepareViews(t.Context(), s.ReadModels))
	pipeline := e.Config.Pipeline()
	for _, p := range projectiontest.All(t, peopleYAML) {
		own(t, s.ReadModels, pipeline, "read model", p.Collection())
		_, err := s.catalog.Write(t.Context(), nil, catalog.Create(pipeline.String(), catalog.Declare(p)[0], catalog.Author{At: time.Now()}))
		w.check(err)
	}
	for i, person := range []any{id, w.other()} {
		for n := range int64(2) {
			name := []string{personName, "somebody else"}[i]
			w.insert("events", bson.D{
				{Key: "aggregateId", Value: person}, {Key: "aggregateType", Value: "Person"}, {Key: "eventId", Value: n + 1}, {Key: "eventType", Value: "Came"},
				{Key: "payload", Value: bson.D{{Key: "name", Value: name}, {Key: "town", Value: "Marlow"}}},
			})
		}
	}
	w.fold(text)
	w.fold(w.otherText())
	return w
}

func (w *people) other() any {
	switch w.id.(type) {
	case int64:
		return int64(424243)
	case bson.ObjectID:
		return bson.ObjectID{7}
	case bson.Binary:
		return bson.Binary{Subtype: bson.TypeBinaryUUID, Data: bytes.Repeat([]byte{7}, 16)}
	}
	return "person-2"
}

func (w *people) otherText() string {
	if s, ok := w.other().(string); ok {
		return s
	}
	kind, data, err := bson.MarshalValue(w.other())
	w.check(err)
	text, _ := scalar(bson.RawValue{Type: kind, Value: data}, "")
	return text
}

func (w *people) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *people) insert(collection string, document any) {
	w.t.Helper()
	_, err := w.s.State.Collection(collection).InsertOne(w.t.Context(), document)
	w.check(err)
}

// fold writes the read models of an aggregate.
func (w *people) fold(id string) {
	w.t.Helper()
	r := &erasing{eraseCommand: &eraseCommand{Aggregate: id}, e: w.e, s: w.s, fields: w.e.Config.Fields, declared: newCommandDefinitions(w.s.Stores, w.e.Config, nil), counts: map[string]int64{}}
	w.check(r.readModels(w.t.Context()))
}

// copies adds what other parts of Penstock keep of the person.
func (w *people) copies() {
	w.t.Helper()
	stream := bson.D{{Key: "_id", Value: "events"}, {Key: "identity", Value: bson.D{{Key: "database", Value: w.s.Events.Database().Name()}, {Key: "collection", Value: "events"}}}}
	w.insert("checkpoints", stream)
	for i, id := range []string{w.text, w.otherText()} {
		name := []string{personName, "nobody"}[i]
		body, err := bson.Marshal(bson.D{{Key: "aggregateId", Value: id}, {Key: "eventId", Value: 1}, {Key: "eventType", Value: "Came"}, {Key: "payload", Value: bson.D{{Key: "name", Value: name}}}})
		w.check(err)
		w.insert("quarantine", bson.D{{Key: "_id", Value: bson.D{{Key: "stream", Value: "events"}, {Key: "document", Value: i}}}, {Key: "aggregateId", Value: id}, {Key: "event", Value: bson.Raw(body)}})
		w.insert("findings", history.Finding{ID: fmt.Sprint("j/", i), Job: "j", Projection: "people", AggregateID: id, Kind: history.Different})
		w.check(w.s.parked.Park(w.t.Context(), []model.Marker{{Unit: model.Unit{Projection: "people", AggregateID: id}, EventID: 3, Head: 3, Reason: "expression", Error: "no such overload: " + name}}))
		// A backup of the read models brings back what a former generation had.
		w.insert("watermarks", bson.D{
			{Key: "_id", Value: bson.D{{Key: "projection", Value: "towns"}, {Key: "aggregateId", Value: id}, {Key: "generation", Value: int64(0)}}},
			{Key: "lastEventId", Value: int64(1)}, {Key: "part", Value: bson.D{{Key: "name", Value: name}}},
		})
		w.insert("audit", bson.D{{Key: "_id", Value: fmt.Sprint(i)}, {Key: "what", Value: fmt.Sprintf("retry aggregate %q", id)}})
		params, err := bson.Marshal(history.Params{Aggregate: id})
		w.check(err)
		w.insert(job.CollectionName, job.Job{ID: fmt.Sprint("verify-", i), Kind: job.Verify, State: job.Done, Params: params})
		part, err := bson.Marshal(bson.D{{Key: "from", Value: bson.D{{Key: "aggregateId", Value: id}}}})
		w.check(err)
		w.insert(job.RangesCollectionName, job.Range{Job: fmt.Sprint("verify-", i), Part: part})
		w.queue.messages = append(w.queue.messages, deadletter.Message{Sequence: int64(i + 1), ContentType: event.ContentTypeBSON, Body: body})
	}
}

// erase runs the command.
func (w *people) erase(c eraseCommand) (result erased, err error) {
	w.t.Helper()
	c.Aggregate, c.Change, c.Output = w.text, cli.Change{Yes: true, Why: "request 17"}, cli.Output{Output: cli.OutputJSON}
	if c.Value == nil {
		c.Value = []string{personName}
	}
	w.check(c.Validate())
	w.out.Reset()
	err = c.erase(w.t.Context(), w.e, w.s, w.queue)
	if w.out.Len() > 0 {
		w.check(json.Unmarshal(w.out.Bytes(), &result))
	}
	return result, err
}

// documents are the documents of all collections, by collection.
func (w *people) documents(without ...string) map[string]string {
	w.t.Helper()
	names, err := w.s.State.ListCollectionNames(w.t.Context(), bson.D{})
	w.check(err)
	found := map[string]string{}
	for _, name := range names {
		cursor, err := w.s.State.Collection(name).Find(w.t.Context(), bson.D{})
		w.check(err)
		var all []bson.Raw
		w.check(cursor.All(w.t.Context(), &all))
		for _, d := range all {
			text := d.String()
			if !slices.ContainsFunc(without, func(part string) bool { return strings.Contains(text, part) }) {
				found[name] += text + "\n"
			}
		}
	}
	return found
}

// TestEraseLeavesNoCopy erases a person whose events were masked by the command, or deleted by the
// application before. Nothing has the name any more; the other person's copies are unchanged.
func TestEraseLeavesNoCopy(t *testing.T) {
	t.Parallel()
	object, uuid := bson.ObjectID{1, 2}, bson.Binary{Subtype: bson.TypeBinaryUUID, Data: bytes.Repeat([]byte{1}, 16)}
	for kind, id := range map[string]struct {
		id   any
		text string
	}{
		"text":     {"person-1", "person-1"},
		"number":   {int64(424242), "424242"},
		"ObjectId": {object, object.Hex()},
		"UUID":     {uuid, "01010101-0101-0101-0101-010101010101"},
	} {
		for _, deleted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, deleted %t", kind, deleted), func(t *testing.T) {
				t.Parallel()
				w := newPeople(t, id.id, id.text)
				w.copies()
				for _, collection := range []string{"people", "guests", "towns"} {
					if !strings.Contains(w.documents()[collection], personName) {
						t.Fatalf("collection %s has no read model of the person: %v", collection, w.documents())
					}
				}
				c := eraseCommand{Mask: []string{"payload.name"}}
				if deleted {
					_, err := w.s.Events.DeleteMany(t.Context(), bson.D{{Key: "aggregateId", Value: id.id}})
					w.check(err)
					c.Mask = nil
				}
				for range 2 { // It can be repeated.
					if result, err := w.erase(c); err != nil || result.Left != 0 {
						t.Fatalf("%v, %+v", err, result)
					}
				}
				all := w.documents()
				for name, text := range all {
					if strings.Contains(text, personName) {
						t.Errorf("collection %s has %s", name, text)
					}
				}
				if len(w.queue.messages) != 1 || w.queue.messages[0].Sequence != 2 {
					t.Errorf("the dead letters are %+v", w.queue.messages)
				}
				for _, name := range []string{"quarantine", "findings", "parked", "audit", "jobs"} {
					if strings.Contains(all[name], w.text) || !strings.Contains(all[name], w.otherText()) {
						t.Errorf("collection %s has %s", name, all[name])
					}
				}
				if all[job.RangesCollectionName] != "" {
					t.Errorf("ranges of jobs that have ended: %s", all[job.RangesCollectionName])
				}
				for _, name := range []string{"people", "guests"} {
					if strings.Contains(all[name], w.text) == deleted || !strings.Contains(all[name], "somebody else") {
						t.Errorf("collection %s has %s", name, all[name])
					}
				}
				inhabitants := map[bool]string{true: `"inhabitants": {"$numberLong":"1"}`, false: `"inhabitants": {"$numberLong":"2"}`}[deleted]
				if !strings.Contains(all["towns"], inhabitants) || deleted == strings.Contains(all["towns"], w.text) {
					t.Errorf("the view has %s", all["towns"])
				}
				r := w.watermarks()
				for name, at := range r {
					if want := map[bool]int64{false: 2, true: model.Erased}[deleted]; at != want {
						t.Errorf("the watermark in %s is %d, not %d: a late message would be applied", name, at, want)
					}
				}
				if len(r) != 3 || !strings.Contains(all["audit"], hashed(w.text)) || !strings.Contains(all["audit"], "request 17") {
					t.Errorf("watermarks %v, audit %s", r, all["audit"])
				}
				if found := w.verify(); deleted && found != nil {
					t.Errorf("a verification finds %v", found)
				}
			})
		}
	}
}

// TestEraseNamesCopiesOfAbandonedGenerations masks a person whose name is also in a collection that a
// projection has left behind, in one that a build has left, and in two parts that came back from a
// backup, one of a generation that the catalog does not know. The person has events, so that other
// documents may have the id.
func TestEraseNamesCopiesOfAbandonedGenerations(t *testing.T) {
	t.Parallel()
	w := newPeople(t, "person-1", "person-1")
	for _, name := range []string{"people_old", "people.generation-7"} {
		w.insert(name, bson.D{{Key: "_id", Value: "person-1"}, {Key: "name", Value: personName}})
	}
	for _, number := range []int64{7, 9} {
		w.insert("watermarks", bson.D{
			{Key: "_id", Value: bson.D{{Key: "projection", Value: "towns"}, {Key: "aggregateId", Value: "person-1"}, {Key: "generation", Value: number}}},
			{Key: "part", Value: bson.D{{Key: "name", Value: personName}}},
		})
	}
	_, err := w.s.State.Collection(catalog.CatalogName).UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{
		{Key: "left", Value: []catalog.Left{{Collection: "people_old"}}}, {Key: "generations", Value: int64(8)},
	}}})
	w.check(err)
	result, err := w.erase(eraseCommand{Mask: []string{"payload.name"}, Value: []string{"what nothing has"}})
	left := map[string]int64{}
	for _, p := range result.Places {
		_, collection, _ := strings.Cut(p.Place, ".")
		if p.After > p.Kept {
			left[collection] = p.After - p.Kept
		}
	}
	if want := map[string]int64{"people_old": 1, "people.generation-7": 1, "watermarks": 1}; !errors.Is(err, cli.ErrFindings) || !maps.Equal(left, want) {
		t.Errorf("left %v, not %v: %v", left, want, err)
	}
}

// watermarks are those of the person, by projection.
func (w *people) watermarks() map[string]int64 {
	w.t.Helper()
	var units []model.Unit
	found := map[string]int64{}
	for name, view := range map[string]bool{"people": false, "guests": false, "towns": true} {
		units = append(units, model.Unit{Projection: name, Collection: name, AggregateID: w.text, Deletes: true, Parts: view})
	}
	watermarks, err := readmodel.Watermarks(w.t.Context(), w.s.ReadModels, units)
	w.check(err)
	for i := range units {
		found[units[i].Projection] = watermarks[i]
	}
	return found
}

// verify compares the person with the events, and returns the kinds that are wrong.
func (w *people) verify() map[string]int64 {
	w.t.Helper()
	for _, name := range []string{"people", "guests", "towns"} {
		c := verifyCommand{Sample: "100%", Grace: time.Second, Limit: 10, Projection: []string{name}, Output: cli.Output{Output: cli.OutputJSON}}
		w.out.Reset()
		if err := c.runOn(w.t.Context(), w.e, w.s); err != nil {
			return map[string]int64{name + ": " + w.out.String() + err.Error(): 1}
		}
	}
	return nil
}

// TestEraseReportsWhatIsLeft checks that the command fails if a value is left, and says where.
func TestEraseReportsWhatIsLeft(t *testing.T) {
	t.Parallel()
	w := newPeople(t, "person-1", "person-1")
	w.insert("notes", bson.D{{Key: "_id", Value: 1}, {Key: "deep", Value: bson.A{bson.D{{Key: "text", Value: "seen by " + personName}}}}})
	before := w.documents("person-1", personName)
	result, err := w.erase(eraseCommand{Mask: []string{"payload.name"}})
	i := slices.IndexFunc(result.Places, func(p foundIn) bool { return strings.HasSuffix(p.Place, ".notes") })
	if !errors.Is(err, cli.ErrFindings) || result.Left != 1 || i < 0 || result.Places[i].After != 1 || result.Places[i].Before != 1 {
		t.Errorf("%v, %+v", err, result)
	}
	after := w.documents("person-1", personName)
	delete(after, "audit")
	delete(after, "watermarks")
	delete(before, "watermarks")
	delete(before, "towns")
	delete(after, "towns")
	for name := range maps.Keys(before) {
		if before[name] != after[name] {
			t.Errorf("collection %s was\n%s, and is\n%s", name, before[name], after[name])
		}
	}
	for _, text := range w.documents() {
		if strings.Contains(text, "Value") && strings.Contains(text, "request 17") && strings.Contains(text, personName) {
			t.Errorf("the audit has the value: %s", text)
		}
	}
}

// TestEraseRemovesADeadLetterBehindManyOthers erases a person with a dead letter behind more of others
// than another command reads, in number or in bytes, or with one that is handed out after theirs.
func TestEraseRemovesADeadLetterBehindManyOthers(t *testing.T) {
	t.Parallel()
	for _, others := range []struct {
		letters, size int
		before        bool
	}{{maxDeadLetters + 1, 1, true}, {70, 256 << 10, true}, {2, 1, false}} {
		w := newPeople(t, "person-1", "person-1")
		letter := func(id, text string) {
			body, err := bson.Marshal(bson.D{{Key: "aggregateId", Value: id}, {Key: "eventId", Value: 1}, {Key: "eventType", Value: "Came"}, {Key: "payload", Value: bson.D{{Key: "name", Value: text}}}})
			w.check(err)
			w.queue.messages = append(w.queue.messages, deadletter.Message{Sequence: int64(len(w.queue.messages) + 1), ContentType: event.ContentTypeBSON, Body: body})
		}
		if !others.before {
			letter("person-1", personName)
		}
		for range others.letters {
			letter("person-2", strings.Repeat("x", others.size))
		}
		if others.before {
			letter("person-1", personName)
		}
		result, err := w.erase(eraseCommand{Mask: []string{"payload.name"}})
		if err != nil || result.Left != 0 || len(w.queue.messages) != others.letters {
			t.Errorf("%d letters of %d bytes: %v, %+v, %d dead letters are left", others.letters, others.size, err, result, len(w.queue.messages))
		}
	}
}

// endless is a dead-letter queue without an end.
type endless struct{ deadletter.Queue }

func (endless) Peek(ctx context.Context, from int64, _ int) ([]deadletter.Message, error) {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
	return []deadletter.Message{{Sequence: from}}, ctx.Err()
}

func TestEraseFailsIfTheDeadLetterQueueDoesNotEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		err := (&erasing{queue: endless{}}).eachDeadLetter(t.Context(), func(*deadletter.Message) {})
		if err == nil || !strings.Contains(err.Error(), "discard dead letters at its front") {
			t.Error(err)
		}
	})
}

// TestEraseOfABuildingGeneration erases from the shadow collection, too.
func TestEraseOfABuildingGeneration(t *testing.T) {
	t.Parallel()
	w := newPeople(t, "person-1", "person-1")
	recorded := w.s.State.Collection(catalog.CatalogName)
	definition := projectiontest.All(t, strings.ReplaceAll(peopleYAML, "payload.name", "payload.name + '!'"))[0]
	d := catalog.Declare(definition)[0]
	_, err := recorded.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: "people"}}, bson.D{{Key: "$set", Value: bson.D{{Key: "building", Value: catalog.Build{
		Generation: 2, Definition: d.Definition, Shadow: "people.generation-2", UUID: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: make([]byte, 16)}, State: catalog.CatchingUp,
	}}}}})
	w.check(err)
	w.fold("person-1")
	w.fold("person-2")
	if shadow := w.documents()["people.generation-2"]; !strings.Contains(shadow, personName+"!") {
		t.Fatalf("the shadow has %s", shadow)
	}
	_, err = w.s.Events.DeleteMany(t.Context(), bson.D{{Key: "aggregateId", Value: "person-1"}})
	w.check(err)
	if result, err := w.erase(eraseCommand{}); err != nil || result.Left != 0 {
		t.Errorf("%v, %+v", err, result)
	}
	if shadow := w.documents()["people.generation-2"]; strings.Contains(shadow, "person-1") || !strings.Contains(shadow, "person-2") {
		t.Errorf("the shadow has %s", shadow)
	}
}

// TestEraseMasksElementsOfArrays masks a field in each element of arrays, and nothing else.
// TestEraseRefusesAnAggregateOfWhichSomeEventsWereDeleted deletes one of the two events, and changes
// nothing: a message of it could still be under way.
func TestEraseRefusesAnAggregateOfWhichSomeEventsWereDeleted(t *testing.T) {
	t.Parallel()
	for id := range int64(2) {
		w := newPeople(t, "person-1", "person-1")
		w.copies()
		_, err := w.s.Events.DeleteOne(t.Context(), bson.D{{Key: "aggregateId", Value: "person-1"}, {Key: "eventId", Value: id + 1}})
		w.check(err)
		before := w.documents()
		if _, err := w.erase(eraseCommand{Mask: []string{"payload.name"}}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("lacks event %d,", id+1)) {
			t.Errorf("without event %d: %v", id+1, err)
		}
		if after := w.documents(); !maps.Equal(before, after) {
			t.Errorf("it has changed %v to %v", before, after)
		}
	}
}

// TestEraseParksAtAnEventThatCannotBeFolded takes a field away that the projections read. Each read
// model, and the part of the view, goes back to the event before: the messages that are still under way
// have the field.
func TestEraseParksAtAnEventThatCannotBeFolded(t *testing.T) {
	t.Parallel()
	w := newPeople(t, "person-1", "person-1")
	_, err := w.s.Events.UpdateMany(t.Context(), bson.D{{Key: "aggregateId", Value: "person-1"}}, bson.D{{Key: "$unset", Value: bson.D{{Key: "payload.name", Value: ""}}}})
	w.check(err)
	if result, err := w.erase(eraseCommand{}); err != nil || result.Left != 0 {
		t.Fatalf("%v, %+v", err, result)
	}
	if r := w.watermarks(); r["people"] != 0 || r["guests"] != 0 || r["towns"] != 0 {
		t.Errorf("watermarks %v", r)
	}
	if found := w.verify(); found != nil {
		t.Errorf("a verification finds %v", found)
	}
	parked := w.documents()["parked"]
	if strings.Count(parked, `"eventId": {"$numberLong":"1"}`) != 3 || strings.Count(parked, `"head": {"$numberLong":"2"}`) != 3 {
		t.Errorf("parked: %s", parked)
	}
}

func TestEraseSaysThatNothingWasFoundOrThatTheAggregateIsParked(t *testing.T) {
	t.Parallel()
	e, _, out := emptyState(t)
	for _, test := range []struct {
		in   foundIn
		says string
		err  error
	}{
		{foundIn{Place: "state.watermarks", After: 1, Kept: 1}, "no place that the command searches had this id", cli.ErrFindings},
		{foundIn{Place: "state.parked", Before: 1, After: 2, Kept: 2}, "the aggregate is parked, because", nil},
		{foundIn{Place: "state.parked", Before: 1, After: 1, Kept: 1}, "nothing is left", nil},
	} {
		out.Reset()
		if err := (&erasing{eraseCommand: new(eraseCommand), e: e}).print([]foundIn{test.in}); !errors.Is(err, test.err) || !strings.Contains(out.String(), test.says) {
			t.Errorf("%+v: %v\n%s", test.in, err, out)
		}
	}
}

func TestEraseMasksElementsOfArrays(t *testing.T) {
	t.Parallel()
	w := newPeople(t, "person-1", "person-1")
	guest := func(name any) bson.D {
		return bson.D{{Key: "names", Value: bson.A{bson.D{{Key: "first", Value: name}}, name}}, {Key: "seat", Value: "A"}}
	}
	w.insert("events", bson.D{
		{Key: "_id", Value: 3}, {Key: "aggregateId", Value: "person-1"}, {Key: "aggregateType", Value: "Person"}, {Key: "eventId", Value: int64(3)}, {Key: "eventType", Value: "Met"},
		{Key: "payload", Value: bson.D{{Key: "guests", Value: bson.A{guest(personName), "nobody", bson.A{guest("Ada's child")}}}}},
	})
	if result, err := w.erase(eraseCommand{Mask: []string{"payload.guests.names.first", "payload.name"}}); !errors.Is(err, cli.ErrFindings) || result.Left != 1 {
		t.Fatalf("a name that no mask leads to is not found: %v, %+v", err, result)
	}
	if result, err := w.erase(eraseCommand{Mask: []string{"payload.guests.names"}}); err != nil || result.Left != 0 {
		t.Fatalf("%v, %+v", err, result)
	}
	var event struct{ Payload bson.M }
	w.check(w.s.Events.FindOne(t.Context(), bson.D{{Key: "_id", Value: 3}}).Decode(&event))
	const want = `{"guests":[{"names":null,"seat":"A"},"nobody",[{"names":null,"seat":"A"}]]}`
	if text, err := bson.MarshalExtJSON(event.Payload, false, false); err != nil || string(text) != want {
		t.Errorf("the event has %s, not %s (%v)", text, want, err)
	}
}

// BenchmarkMaskOfAnArray masks a field in each element of an array. The time for an element must not
// depend on their number.
func BenchmarkMaskOfAnArray(b *testing.B) {
	for _, elements := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(elements), func(b *testing.B) {
			items := slices.Repeat(bson.A{bson.D{{Key: "sku", Value: 1}, {Key: "name", Value: personName}}}, elements)
			event := testkit.Raw(bson.D{{Key: "payload", Value: bson.D{{Key: "items", Value: items}}}})
			r := &erasing{eraseCommand: &eraseCommand{Mask: []string{"payload.items.name"}}}
			for b.Loop() {
				if set := r.nulls(event); len(set) != elements {
					b.Fatalf("%d of %d elements are masked", len(set), elements)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*elements), "ns/element")
		})
	}
}

// TestEraseRefusesAMisspeltField changes nothing if no event has a field of the mask. A field that one
// event has, and one that is null already, are masked.
func TestEraseRefusesAMisspeltField(t *testing.T) {
	t.Parallel()
	w := newPeople(t, "person-1", "person-1")
	before := w.documents()
	for _, field := range []string{"payload.nam", "nonsense", "payload.name.first"} {
		_, err := w.erase(eraseCommand{Mask: []string{"payload.town", field}})
		if want := "no event of the aggregate has the field " + field + " of --mask: correct the name"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if after := w.documents(); !maps.Equal(before, after) {
		t.Errorf("it has changed %v to %v", before, after)
	}
	_, err := w.s.Events.UpdateOne(t.Context(), bson.D{{Key: "aggregateId", Value: "person-1"}, {Key: "eventId", Value: 2}}, bson.D{{Key: "$unset", Value: bson.D{{Key: "payload.town", Value: ""}}}})
	w.check(err)
	for range 2 {
		if result, err := w.erase(eraseCommand{Mask: []string{"payload.town", "payload.name"}}); err != nil || result.Left != 0 {
			t.Errorf("%v, %+v", err, result)
		}
	}
	if audit := w.documents()["audit"]; strings.Count(audit, `"masked": {"$numberLong":"2"}`) != 1 {
		t.Errorf("the events were masked again: %s", audit)
	}
}

// TestEraseOfAMistypedIDFailsAgain repeats an erasure that has found nothing. It fails again, unlike
// that of an aggregate whose events and copies are deleted already.
func TestEraseOfAMistypedIDFailsAgain(t *testing.T) {
	t.Parallel()
	w := newPeople(t, "person-1", "person-1")
	_, err := w.s.Events.DeleteMany(t.Context(), bson.D{{Key: "aggregateId", Value: "person-1"}})
	w.check(err)
	for range 3 {
		if _, err := w.erase(eraseCommand{}); err != nil {
			t.Error(err)
		}
	}
	w.text = "persn-1"
	for range 3 {
		if result, err := w.erase(eraseCommand{}); !errors.Is(err, cli.ErrFindings) || result.Left != 0 {
			t.Errorf("%v, %+v", err, result)
		}
	}
	w.text = "person-1"
	_, err = audit.In(w.s.State).DeleteMany(t.Context(), bson.D{})
	w.check(err)
	if _, err := w.erase(eraseCommand{}); err != nil {
		t.Errorf("after the loss of the audit: %v", err)
	}
}

// TestEraseCountsBeforeItAsks wants the numbers of the search in the question.
func TestEraseCountsBeforeItAsks(t *testing.T) {
	t.Parallel()
	w := newPeople(t, "person-1", "person-1")
	for id, want := range map[string]string{"person-1": " from every copy (2 events, found in 5 places): nothing was changed", "persn-1": " from every copy (0 events, found in 0 places): nothing was changed"} {
		c := eraseCommand{Aggregate: id, Change: cli.Change{Why: "request 17"}}
		if err := c.erase(t.Context(), w.e, w.s, w.queue); !errors.Is(err, cli.ErrNotConfirmed) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// The read models of another release on the event store can be in another database.
func TestEraseNamesTheReadModelsOfAnotherRelease(t *testing.T) {
	t.Parallel()
	w := newPeople(t, "person-1", "person-1")
	_, err := w.s.catalog.Write(t.Context(), nil, catalog.Create("other"+w.e.Config.Pipeline().String(),
		catalog.Declared{Name: "visits", Definition: catalog.Definition{Collection: "visits", Text: "{}"}}, catalog.Author{At: time.Now()}))
	w.check(err)
	first := &catalog.Entry{Name: "stays", Pipeline: "other" + w.e.Config.Pipeline().String(), Building: &catalog.Build{Definition: catalog.Definition{Collection: "stays", Text: "{}"}}}
	_, err = w.s.catalog.Write(t.Context(), nil, first)
	w.check(err)
	result, err := w.erase(eraseCommand{Mask: []string{"payload.name"}})
	if err != nil || result.Left != 0 || !strings.Contains(result.Unreached[0], "of stays, visits") {
		t.Errorf("%v, %+v", err, result)
	}
}

// TestEraseOfARetiredProjection erases what a retired projection has, and creates no read model that
// it does not have: no projector would write it any more.
func TestEraseOfARetiredProjection(t *testing.T) {
	t.Parallel()
	w := newPeople(t, "person-1", "person-1")
	_, err := w.s.State.Collection(catalog.CatalogName).UpdateMany(t.Context(), bson.D{{Key: "_id", Value: bson.D{{Key: "$ne", Value: "towns"}}}},
		bson.D{{Key: "$set", Value: bson.D{{Key: "retiredAt", Value: time.Now()}}}})
	w.check(err)
	_, err = w.s.ReadModels.Collection("people").DeleteOne(t.Context(), bson.D{{Key: "_id", Value: "person-1"}})
	w.check(err)
	if result, err := w.erase(eraseCommand{Mask: []string{"payload.name"}}); err != nil || result.Left != 0 {
		t.Fatalf("%v, %+v", err, result)
	}
	if all := w.documents(); strings.Contains(all["people"], "person-1") || !strings.Contains(all["guests"], "person-1") {
		t.Errorf("the collections have %s and %s", all["people"], all["guests"])
	}
}

func TestEraseChecksItsFlags(t *testing.T) {
	t.Parallel()
	why := cli.Change{Why: "request 17"}
	for want, c := range map[string]eraseCommand{
		"--aggregate is not set":         {Change: why},
		"--why is not set":               {Aggregate: "person-1"},
		"--why has the id":               {Aggregate: "person-1", Change: cli.Change{Why: "person-1 asked"}},
		"--why has a --value":            {Aggregate: "person-1", Value: []string{"Ada"}, Change: cli.Change{Why: "Ada asked"}},
		"less than 3 bytes":              {Aggregate: "person-1", Value: []string{"A"}, Change: why},
		`--mask is "eventId"`:            {Aggregate: "person-1", Mask: []string{"eventId"}, Change: why},
		`--mask is "payload."`:           {Aggregate: "person-1", Mask: []string{"payload."}, Change: why},
		`--mask has "payload.a.b" twice`: {Aggregate: "person-1", Mask: []string{"payload.a.b", "payload.a", "payload.ab"}, Change: why},
		`--mask is "payload.$[].no"`:     {Aggregate: "person-1", Mask: []string{"payload.$[].no"}, Change: why},
	} {
		if err := errors.Join(c.Validate(), c.checkMask(event.DefaultFields())); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
}

func TestWordsOfAnIDAreFound(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"person-1": 0, `aggregate "person-1"`: 11, "person-12": -1, "a person-1, too": 2, "xperson-1": -1} {
		if at := wordIn(text, "person-1"); at != want {
			t.Errorf("%q: %d, want %d", text, at, want)
		}
	}
	for text, want := range map[string]int{"7": 0, `aggregate "7"`: 11, "7 events": -1} {
		if at := wordIn(text, "7"); at != want {
			t.Errorf("%q: %d, want %d", text, at, want)
		}
	}
}

// TestSearchKnowsOlderUUIDs searches a document for the id of an aggregate, as a UUID of subtype 3.
func TestSearchKnowsOlderUUIDs(t *testing.T) {
	t.Parallel()
	const id = "00112233-4455-6677-8899-aabbccddeeff"
	uuid := [16]byte{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}
	for _, order := range []event.UUIDRepresentation{event.CSharpLegacy, event.JavaLegacy, event.PythonLegacy, ""} {
		stored := order.Reorder(uuid)
		document := testkit.Raw(bson.D{{Key: "person", Value: bson.Binary{Subtype: bson.TypeBinaryUUIDOld, Data: stored[:]}}})
		r := &erasing{eraseCommand: &eraseCommand{Aggregate: id}, fields: event.Fields{UUIDs: order}}
		if h := r.match(document); h.id != order.Ordered() {
			t.Errorf("%q: found %v", order, h.id)
		}
	}
}
