package operate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	driver "go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/deadletter"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/park"
)

// peeked is a queue of which messages are only read.
type peeked struct {
	deadletter.Queue
	messages []deadletter.Message
}

func (q peeked) Peek(_ context.Context, from int64, limit int) ([]deadletter.Message, error) {
	var found []deadletter.Message
	for _, m := range q.messages {
		if m.Sequence >= from && len(found) < limit {
			found = append(found, m)
		}
	}
	return found, nil
}

func TestFilterWithoutADeadLetterIsReported(t *testing.T) {
	t.Parallel()
	one := []deadletter.Message{{Sequence: 7, Reason: "expression", Body: []byte("no event")}}
	for name, test := range map[string]struct {
		filter   deadlettersFilter
		messages []deadletter.Message
		want     int
		err      error
		note     string
	}{
		"none matches":    {deadlettersFilter{Reason: "missing", Limit: 10}, one, 0, errNoDeadLetterMatches, ""},
		"one matches":     {deadlettersFilter{Reason: "expression", Limit: 10}, one, 1, nil, ""},
		"none was read":   {deadlettersFilter{Reason: "missing", Limit: 1}, one, 0, errNoDeadLetterMatches, "read 1 dead letter, up to --limit or 16 MiB; the queue can have more\n"},
		"the queue empty": {deadlettersFilter{Reason: "missing", Limit: 10}, nil, 0, nil, "no dead letters\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, s, out := emptyState(t)
			e.Config.Fields = event.DefaultFields()
			found, err := test.filter.chooseSome(t.Context(), e, s, peeked{messages: test.messages})
			if len(found) != test.want || !errors.Is(err, test.err) || out.String() != test.note {
				t.Errorf("%+v, %v, %q", found, err, out)
			}
		})
	}
}

// A dead letter can be removed when every read model of the subscription has its event. Retired
// projections and those of other pipelines do not count.
func TestDeadLetterIsAppliedWhenEveryReadModelHasItsEvent(t *testing.T) {
	t.Parallel()
	e, s, _ := emptyState(t)
	e.Config.Fields = event.DefaultFields()
	// No projection takes the first one's type, and its aggregate has the same id.
	var queue peeked
	for i, aggregateType := range []string{"Visit", "Order"} {
		body, err := bson.Marshal(bson.D{{Key: "aggregateId", Value: "x"}, {Key: "aggregateType", Value: aggregateType}, {Key: "eventId", Value: 2}, {Key: "eventType", Value: "Came"}})
		if err != nil {
			t.Fatal(err)
		}
		queue.messages = append(queue.messages, deadletter.Message{Sequence: int64(i), Reason: deadDeliveries, ContentType: event.ContentTypeBSON, Body: body})
	}
	create := func(pipeline, name string) {
		t.Helper()
		entry := catalog.Create(pipeline, catalog.Declared{Name: name, Definition: catalog.Definition{Collection: name, Text: `{"aggregateType": "Order", "on": {"Came": {}}}`}}, catalog.Author{At: time.Now()})
		if _, err := s.catalog.Write(t.Context(), nil, entry); err != nil {
			t.Fatal(err)
		}
	}
	at := func(collection string, watermark int64) {
		t.Helper()
		_, err := s.ReadModels.Collection(collection).ReplaceOne(t.Context(), bson.D{{Key: "_id", Value: "x"}},
			bson.D{{Key: "lastEventId", Value: watermark}, {Key: "lastGeneration", Value: int64(1)}}, options.Replace().SetUpsert(true))
		if err != nil {
			t.Fatal(err)
		}
	}
	expect := func(applied bool, parked, next string) {
		t.Helper()
		found, _, err := deadlettersFilter{Limit: 10}.choose(t.Context(), e, s, queue)
		if err != nil || len(found) != 2 {
			t.Fatalf("%+v, %v", found, err)
		}
		if d := found[1]; d.Applied != applied || strings.Join(d.Parked, ",") != parked || !strings.HasPrefix(d.Next, next) {
			t.Errorf("%+v, want applied %t, parked in %q, next %q", d, applied, parked, next)
		}
	}
	expect(false, "", "wait for the next sweep") // no projection: probably the subscription of another program
	own := e.Config.Pipeline().String()
	create(own, "a")
	create(own, "b")
	create("another pipeline", "c")
	at("a", 2)
	at("b", 1)
	expect(false, "", "wait for the next sweep")
	for _, name := range []string{"b", "c"} {
		if err := s.parked.Park(t.Context(), []model.Marker{{Unit: model.Unit{Projection: name, AggregateID: "x"}, EventID: 2, Head: 2, Reason: "expression"}}); err != nil {
			t.Fatal(err)
		}
	}
	expect(false, "b", "parked retry")
	at("b", 2)
	expect(true, "b", "deadletters discard --applied")
}

// TestDeadLettersOfManyAggregatesNeedAFewRequests counts the requests for one aggregate and for many, each
// of which is parked.
func TestDeadLettersOfManyAggregatesNeedAFewRequests(t *testing.T) {
	t.Parallel()
	e, s, _ := emptyState(t)
	e.Config.Fields = event.DefaultFields()
	var requests atomic.Int64
	client, err := mongo.Connect(options.Client().ApplyURI(server.URI()).SetMonitor(&driver.CommandMonitor{
		Started: func(context.Context, *driver.CommandStartedEvent) { requests.Add(1) },
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	db := client.Database(s.State.Name())
	s.ReadModels, s.parked = db, park.NewStore(park.In(db), park.Options{})
	for _, name := range []string{"a", "b"} {
		entry := catalog.Create(e.Config.Pipeline().String(), catalog.Declared{Name: name, Definition: catalog.Definition{Collection: name, Text: `{"on": {"Came": {}}}`}}, catalog.Author{At: time.Now()})
		if _, err := s.catalog.Write(t.Context(), nil, entry); err != nil {
			t.Fatal(err)
		}
	}
	var queue peeked
	var markers []model.Marker
	for i := range 100 {
		id := fmt.Sprint(i)
		body, err := bson.Marshal(bson.D{{Key: "aggregateId", Value: id}, {Key: "eventId", Value: 2}, {Key: "eventType", Value: "Came"}})
		if err != nil {
			t.Fatal(err)
		}
		queue.messages = append(queue.messages, deadletter.Message{Sequence: int64(i), Reason: deadDeliveries, ContentType: event.ContentTypeBSON, Body: body})
		markers = append(markers, model.Marker{Unit: model.Unit{Projection: "a", AggregateID: id}, EventID: 2, Head: 2, Reason: "expression"})
	}
	if err := s.parked.Park(t.Context(), markers); err != nil {
		t.Fatal(err)
	}
	of := map[int]int64{}
	for _, n := range []int{1, 100} {
		requests.Store(0)
		found, _, err := deadlettersFilter{Limit: n}.choose(t.Context(), e, s, queue)
		if err != nil || len(found) != n {
			t.Fatalf("%d found, %v", len(found), err)
		}
		for _, d := range found {
			if d.Applied || len(d.Parked) != 1 || d.Parked[0] != "a" {
				t.Errorf("%+v", d)
			}
		}
		of[n] = requests.Load()
	}
	if of[100] != of[1] {
		t.Errorf("requests: %v", of)
	}
}

func TestParkedCommandsRefuseAnUnknownProjection(t *testing.T) {
	t.Parallel()
	e, s, out := emptyState(t)
	visitsEntry(t, s.State, e.Config.Pipeline().String())
	list := func(projection string) error {
		return (&parkedListCommand{parkedFilter: parkedFilter{Projection: projection, Limit: 10}}).runOn(t.Context(), e, s)
	}
	if err := list("visit"); err == nil || !strings.Contains(err.Error(), `there is no projection "visit": the catalog has visits`) {
		t.Errorf("a misspelt projection: %v\n%s", err, out)
	}
	marker := model.Marker{Unit: model.Unit{Projection: "former", AggregateID: "a"}, EventID: 1, Head: 1, Reason: "expression"}
	if err := s.parked.Park(t.Context(), []model.Marker{marker}); err != nil {
		t.Fatal(err)
	}
	if err := (&parkedListCommand{parkedFilter: parkedFilter{Projection: "former", Discarded: true, Limit: 10}}).runOn(t.Context(), e, s); err != nil {
		t.Errorf("a projection with markers alone: %v", err)
	}
	if err := list("visits"); err != nil || !strings.Contains(out.String(), "no parked aggregates") {
		t.Errorf("a projection without parked aggregates: %v\n%s", err, out)
	}
}
