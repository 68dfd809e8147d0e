package eventstore_test

import (
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
)

func documents(events ...bson.D) []bson.Raw {
	all := make([]bson.Raw, len(events))
	for i, ev := range events {
		all[i] = testkit.Raw(ev)
	}
	return all
}

func TestStoreWithOneTypeOfIDIsAskedOnlyForTypes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		id      any
		replies []bson.D
	}{
		"names":    {"order-1", nil},
		"integers": {int64(42), []bson.D{reply("firstBatch", 0, indexID, index), reply("firstBatch", 0)}},
		"texts":    {"42", []bson.D{reply("firstBatch", 0, indexID, index), reply("firstBatch", 0, eventOf("42", 1)), reply("firstBatch", 0), reply("firstBatch", 0), reply("firstBatch", 0)}},
		"no index": {"42", []bson.D{reply("firstBatch", 0, indexID)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, events := newServer(t, test.replies...)
			r := newReader(t, events)
			for range 2 {
				// The server fails every command after the last reply.
				if found, err := r.Strangers(t.Context(), documents(eventOf(test.id, 1))); found != nil || err != nil {
					t.Fatalf("found %v, %v", found, err)
				}
				if name == "no index" {
					return
				}
			}
			if name == "integers" {
				want := `{"find":"events","filter":{"aggregateId":{"$gte":""}},"hint":"byAggregate","limit":1,"projection":{"_id":0,"aggregateId":1,"eventId":1},"singleBatch":true,"readConcern":{"level":"majority"}}`
				if got := s.Command(t, 1); got != want {
					t.Errorf("asked by %s, want %s", got, want)
				}
			}
		})
	}
}

func TestOlderNamesakeKeepsTheID(t *testing.T) {
	t.Parallel()
	first := func(aggregate, id any, at time.Time) bson.D {
		return append(bson.D{{Key: "_id", Value: id}, {Key: "timestamp", Value: at}}, eventOf(aggregate, 1)...)
	}
	earlier, later := bson.NewObjectIDFromTimestamp(time.Unix(1, 0)), bson.NewObjectIDFromTimestamp(time.Unix(2, 0))
	now := time.Now()
	for name, test := range map[string]struct {
		integer, text bson.D
		stranger      any
	}{
		"by _id":                     {first(42, earlier, now), first("42", later, now.Add(-time.Hour)), "42"},
		"by timestamp":               {first(42, later, now), first("42", "b", now.Add(-time.Hour)), 42},
		"by timestamp, integer":      {first(42, "a", now.Add(-time.Hour)), first("42", "b", now), "42"},
		"string, if nothing differs": {first(42, "a", now), first("42", "b", now), 42},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, events := newServer(t,
				bson.D{{Key: "ok", Value: 1}, {Key: "values", Value: bson.A{42, "42"}}},
				reply("firstBatch", 0, test.integer), reply("firstBatch", 0, test.text),
			)
			r := newReader(t, events)
			docs := documents(eventOf(42, 7), eventOf("42", 7), eventOf("x", 1))
			for range 2 {
				found, err := r.Strangers(t.Context(), docs)
				if err != nil || len(found) != len(docs) {
					t.Fatalf("found %v, %v", found, err)
				}
				for i, id := range []any{42, "42", "x"} {
					broken, ok := errors.AsType[*event.ContractError](found[i])
					if ok != (id == test.stranger) || ok && (broken.Reason != event.ReasonAmbiguousAggregateID || broken.Field != "aggregateId") {
						t.Errorf("%v: %v", id, found[i])
					}
				}
			}
		})
	}
}
