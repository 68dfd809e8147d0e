package app_test

import (
	"context"
	"math"
	"testing"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// TestEveryRouteGivesTheSameReadModel passes one event to the projector by every route: the
// topic in both content types, the repair of a gap, a claim check, and a refold. A
// projection that stores the whole event must make the same document of each, byte for
// byte.
func TestEveryRouteGivesTheSameReadModel(t *testing.T) {
	t.Parallel()
	projections := projectiontest.All(t, `
projections:
  - name: values
    collection: values
    on:
      E:
        set: {payload: payload, metadata: metadata, whole: event, list: "[payload, 1]", field: "payload.?v"}
        push: {all: payload}
        addToSet: {set: "payload.?v"}
`)
	reader := testkit.EventReader()
	store := newOneEvent(t)
	rapid.Check(t, func(t *rapid.T) {
		stored := testkit.Raw(bson.D{
			{Key: "_id", Value: drawBSON(t, 0)},
			{Key: "aggregateId", Value: rapid.SampledFrom([]any{"a", int32(7), int64(7)}).Draw(t, "aggregateId")},
			{Key: "eventId", Value: rapid.SampledFrom([]any{int32(1), int64(1), 1.0}).Draw(t, "eventId")},
			{Key: "eventType", Value: "E"},
			{Key: "payload", Value: bson.D{{Key: "v", Value: drawBSON(t, 3)}, {Key: "w", Value: drawBSON(t, 3)}}},
			{Key: "metadata", Value: bson.D{{Key: "m", Value: drawBSON(t, 1)}}},
			{Key: "extra", Value: drawBSON(t, 2)},
		})
		var first bson.Raw
		var failed string
		for _, way := range []struct {
			name string
			read func(*rapid.T, *event.Reader, bson.Raw) *event.Event
		}{
			{"topic as JSON", overTopic(event.EncodingJSON)},
			{"topic as BSON", overTopic(event.EncodingBSON)},
			{"gap repair", byRepair(store)},
			{"claim check", byClaimCheck(store)},
			{"refold", byRefold(store)},
		} {
			f := projections[0].Fold(nil, []*event.Event{way.read(t, reader, stored)})
			if f.Err != nil {
				// A string that is not valid UTF-8 cannot be built into a new document.
				outcome := f.Err.Error()
				if failed == "" {
					failed = outcome
				}
				if outcome != failed || first != nil {
					t.Fatalf("%s fails with %s, the topic as JSON %s", way.name, outcome, failed)
				}
				continue
			}
			if first == nil {
				first = f.Document
			}
			if failed != "" || string(f.Document) != string(first) {
				t.Fatalf("%s gives\n%s\nthe topic as JSON\n%s %s", way.name, canonicalJSON(t, f.Document), canonicalJSON(t, first), failed)
			}
		}
	})
}

func encoded(t *rapid.T, reader *event.Reader, stored bson.Raw, encode func(*event.Encoder, *event.Event) (event.Message, error), encoding event.Encoding) *event.Event {
	source, err := reader.Read(stored)
	if err != nil {
		t.Fatal(err)
	}
	message, err := encode(event.NewEncoder(encoding, event.SessionKeys{}), &source)
	if err != nil {
		t.Fatal(err)
	}
	body, err := event.DecodeBody(message.ContentType, message.Body)
	if err != nil {
		t.Fatal(err)
	}
	ev, err := reader.Read(body)
	if err != nil {
		t.Fatal(err)
	}
	return &ev
}

func overTopic(encoding event.Encoding) func(*rapid.T, *event.Reader, bson.Raw) *event.Event {
	return func(t *rapid.T, reader *event.Reader, stored bson.Raw) *event.Event {
		return encoded(t, reader, stored, func(e *event.Encoder, ev *event.Event) (event.Message, error) { return e.Encode(ev, 1) }, encoding)
	}
}

func byRepair(store *oneEvent) func(*rapid.T, *event.Reader, bson.Raw) *event.Event {
	return func(t *rapid.T, reader *event.Reader, stored bson.Raw) *event.Event {
		next := overTopic(event.EncodingJSON)(t, reader, stored)
		store.holds(stored)
		events, err := store.Missing(context.Background(), next, 1, 1, 10)
		if err != nil || len(events) != 1 {
			t.Fatalf("%d events, %v", len(events), err)
		}
		return events[0]
	}
}

func byClaimCheck(store *oneEvent) func(*rapid.T, *event.Reader, bson.Raw) *event.Event {
	return func(t *rapid.T, reader *event.Reader, stored bson.Raw) *event.Event {
		claim := encoded(t, reader, stored, func(e *event.Encoder, ev *event.Event) (event.Message, error) { return e.EncodeClaimCheck(ev, 1) }, event.EncodingJSON)
		store.holds(stored)
		whole, err := store.Whole(context.Background(), claim)
		if err != nil {
			t.Fatal(err)
		}
		return whole
	}
}

func byRefold(store *oneEvent) func(*rapid.T, *event.Reader, bson.Raw) *event.Event {
	return func(t *rapid.T, _ *event.Reader, stored bson.Raw) *event.Event {
		ev, err := store.Read(stored)
		if err != nil {
			t.Fatal(err)
		}
		return &ev
	}
}

// oneEvent is an event store that holds one event.
type oneEvent struct {
	*eventstore.Reader
	server *mongotest.Replies
}

func newOneEvent(t *testing.T) *oneEvent {
	t.Helper()
	server := mongotest.NewReplies(t)
	r := eventstore.NewReader(server.Client.Database("shop").Collection("events"), event.DefaultFields(), zerolog.Nop())
	return &oneEvent{Reader: r, server: server}
}

// holds makes the store return that event for the next query.
func (s *oneEvent) holds(stored bson.Raw) {
	s.server.Answer(bson.D{{Key: "ok", Value: 1}, {Key: "cursor", Value: bson.D{
		{Key: "id", Value: int64(0)}, {Key: "ns", Value: "shop.events"}, {Key: "firstBatch", Value: bson.A{stored}},
	}}})
}

func canonicalJSON(t *rapid.T, raw bson.Raw) string {
	text, err := bson.MarshalExtJSON(raw, true, false)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// drawBSON draws a value of any BSON type, nested at most depth levels.
func drawBSON(t *rapid.T, depth int) any {
	limit := 22
	if depth == 0 {
		limit = 19
	}
	switch rapid.IntRange(0, limit).Draw(t, "type") {
	case 0:
		return rapid.Int32().Draw(t, "int32")
	case 1:
		return int64(rapid.Int32().Draw(t, "small int64"))
	case 2:
		return rapid.Int64().Draw(t, "int64")
	case 3:
		return float64(rapid.Int32().Draw(t, "whole double"))
	case 4:
		return rapid.SampledFrom([]float64{math.Copysign(0, -1), math.Inf(1), math.NaN(), math.Float64frombits(0x7ff8000000000000), math.Float64frombits(0xfff8000000000007), 1e22, 1.5, 1 << 53}).Draw(t, "double")
	case 5:
		h := rapid.SampledFrom([]uint64{0x3040000000000000, 0xb040000000000000, 0x7c00000000000000, 0xfc00000000000000, 0x7800000000000000, 0x3041ffffffffffff, 0x5fffed09bead87c0}).Draw(t, "decimal")
		return bson.NewDecimal128(h, rapid.SampledFrom([]uint64{0, 1, 110, math.MaxUint64}).Draw(t, "low"))
	case 6:
		return rapid.String().Draw(t, "text")
	case 7:
		return "invalid \xff UTF-8"
	case 8:
		return rapid.Bool().Draw(t, "bool")
	case 9:
		return nil
	case 10:
		return bson.DateTime(rapid.OneOf(rapid.Int64(), rapid.Int64Range(0, 4e12)).Draw(t, "date"))
	case 11:
		return bson.Binary{Subtype: rapid.SampledFrom([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 128, 255}).Draw(t, "subtype"), Data: rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "data")}
	case 12:
		return bson.ObjectID(rapid.SliceOfN(rapid.Byte(), 12, 12).Draw(t, "id"))
	case 13:
		return bson.Regex{Pattern: "^a", Options: rapid.SampledFrom([]string{"", "im", "mi"}).Draw(t, "options")}
	case 14:
		return bson.Timestamp{T: rapid.Uint32().Draw(t, "t"), I: rapid.Uint32().Draw(t, "i")}
	case 15:
		return rapid.SampledFrom([]any{bson.MinKey{}, bson.MaxKey{}, bson.Undefined{}}).Draw(t, "bound")
	case 16:
		return bson.JavaScript(rapid.String().Draw(t, "code"))
	case 17:
		return bson.Symbol(rapid.String().Draw(t, "symbol"))
	case 18:
		return bson.DBPointer{DB: "a.b", Pointer: bson.ObjectID{1}}
	case 19:
		return bson.D{{Key: "$oid", Value: rapid.Int32().Draw(t, "wrapper")}}
	case 20:
		return bson.CodeWithScope{Code: "f", Scope: bson.D{{Key: "s", Value: drawBSON(t, depth-1)}}}
	case 21:
		var d bson.D
		for range rapid.IntRange(0, 3).Draw(t, "fields") {
			d = append(d, bson.E{Key: rapid.SampledFrom([]string{"a", "b", "$date", "ü", ""}).Draw(t, "key"), Value: drawBSON(t, depth-1)})
		}
		return d
	default:
		a := bson.A{}
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			a = append(a, drawBSON(t, depth-1))
		}
		return a
	}
}
