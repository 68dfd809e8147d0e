package contract_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/mongoemu/mongoemutest"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
)

// uriVariable is the variable that names a real server to test against, in addition to
// the stand-in.
const uriVariable = "PENSTOCK_TEST_MONGODB_URI"

// onEachServer runs a test on an events collection with its index: on a replica set, on a
// mongos with two kinds of shard key, and on a real server if one is configured. ids is the type of
// ids with which the test fills it, another one on each.
func onEachServer(t *testing.T, test func(t *testing.T, events *mongo.Collection, ids string)) {
	t.Helper()
	t.Run("replica set", func(t *testing.T) {
		t.Parallel()
		client := mongoemutest.Connect(t, mongoemutest.Start(t, mongoemu.Config{}))
		test(t, withIndex(t, client.Database("shop").Collection("events"), true), "uuid")
	})
	for key, unique := range map[string]bool{"aggregateId": true, "aggregateType": false} {
		t.Run("sharded by "+key, func(t *testing.T) {
			t.Parallel()
			client := mongoemutest.Connect(t, mongoemutest.Start(t, mongoemu.Config{Sharded: true}))
			if err := client.Database("admin").RunCommand(t.Context(), bson.D{
				{Key: "shardCollection", Value: "shop.events"}, {Key: "key", Value: bson.D{{Key: key, Value: 1}}},
			}).Err(); err != nil {
				t.Fatal(err)
			}
			test(t, withIndex(t, client.Database("shop").Collection("events"), unique), map[bool]string{true: "integer", false: "objectId"}[unique])
		})
	}
	if uri := os.Getenv(uriVariable); uri != "" {
		t.Run("real server", func(t *testing.T) {
			client, err := mongo.Connect(options.Client().ApplyURI(uri))
			if err != nil {
				t.Fatal(err)
			}
			database := client.Database(fmt.Sprintf("penstock-test-%d", rand.Uint32()))
			t.Cleanup(func() {
				if err := errors.Join(database.Drop(context.Background()), client.Disconnect(context.Background())); err != nil {
					t.Error(err)
				}
			})
			test(t, withIndex(t, database.Collection("events"), true), "string")
		})
	}
}

func withIndex(t *testing.T, events *mongo.Collection, unique bool) *mongo.Collection {
	t.Helper()
	_, err := events.Indexes().CreateOne(t.Context(), mongo.IndexModel{
		Keys:    bson.D{{Key: "aggregateId", Value: 1}, {Key: "eventId", Value: 1}},
		Options: options.Index().SetUnique(unique),
	})
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func readerOf(t *testing.T, events *mongo.Collection) *eventstore.Reader {
	t.Helper()
	r := eventstore.NewReader(events, event.DefaultFields(), zerolog.Nop())
	return r
}

// history is one aggregate of the test.
type history struct {
	id    any
	first int64
	last  int64
}

func (h history) documents() []any {
	var documents []any
	for n := h.first; n <= h.last; n++ {
		// Integer widths are mixed, as if several writers had written them.
		id := any(n)
		if n%3 == 0 {
			id = int32(n)
		} else if n%5 == 0 {
			id = float64(n)
		}
		documents = append(documents, bson.D{
			{Key: "aggregateId", Value: h.id}, {Key: "aggregateType", Value: "Order"}, {Key: "eventId", Value: id},
			{Key: "eventType", Value: "Happened"}, {Key: "payload", Value: bson.D{{Key: "n", Value: n}}},
		})
	}
	return documents
}

// histories have ids of one type that the contract allows.
func histories(n int, ids string) []history {
	var all []history
	for i := range n {
		var id any
		switch {
		case ids == "string":
			id = fmt.Sprintf("order-%04d", i)
		case ids == "objectId":
			id = bson.NewObjectIDFromTimestamp(time.Unix(int64(1_700_000_000+i), 0))
		case ids == "uuid":
			id = bson.Binary{Subtype: bson.TypeBinaryUUID, Data: append(make([]byte, 14), byte(i>>8), byte(i))}
		case i%2 == 0:
			id = int64(i) << 33
		default:
			id = int32(i)
		}
		all = append(all, history{id: id, first: 1 + int64(i%7/6), last: 1 + int64(i%7/6) + int64(i%9)})
	}
	return all
}

// brokenDocuments break the contract in their keys.
var brokenDocuments = []any{
	bson.D{{Key: "eventId", Value: 1}},
	bson.D{{Key: "aggregateId", Value: nil}, {Key: "eventId", Value: 2}},
	bson.D{{Key: "aggregateId", Value: "order-0000"}},
	bson.D{{Key: "aggregateId", Value: "order-0000"}, {Key: "eventId", Value: "two"}},
	bson.D{{Key: "aggregateId", Value: "order-0000"}, {Key: "eventId", Value: 1.5}},
	bson.D{{Key: "aggregateId", Value: "order-0000"}, {Key: "eventId", Value: -1}},
	bson.D{{Key: "aggregateId", Value: 7.5}, {Key: "eventId", Value: 1}},
	bson.D{{Key: "aggregateId", Value: true}, {Key: "eventId", Value: 1}},
	bson.D{{Key: "aggregateId", Value: bson.D{{Key: "a", Value: 1}}}, {Key: "eventId", Value: 1}},
}

func insert(t *testing.T, events *mongo.Collection, documents []any) {
	t.Helper()
	rand.Shuffle(len(documents), func(i, j int) { documents[i], documents[j] = documents[j], documents[i] })
	for part := range slices.Chunk(documents, 10_000) {
		if _, err := events.InsertMany(t.Context(), part); err != nil {
			t.Fatal(err)
		}
	}
}

// ranges returns the ranges between boundaries. The boundaries are converted to BSON and
// back, because jobs store them as BSON.
func ranges(t *testing.T, boundaries []eventstore.Position) [][2]eventstore.Position {
	t.Helper()
	all := [][2]eventstore.Position{{}}
	for _, boundary := range boundaries {
		data, err := bson.Marshal(bson.D{{Key: "at", Value: boundary}})
		if err != nil {
			t.Fatal(err)
		}
		var kept struct{ At eventstore.Position }
		if err := bson.Unmarshal(data, &kept); err != nil || !kept.At.Equal(boundary) {
			t.Fatalf("boundary %v comes back as %v: %v", boundary, kept.At, err)
		}
		all[len(all)-1][1] = kept.At
		all = append(all, [2]eventstore.Position{kept.At})
	}
	return all
}

func headsOf(t *testing.T, r *eventstore.Reader, from, until eventstore.Position) []eventstore.Head {
	t.Helper()
	cursor, err := r.Heads(t.Context(), from, until, bson.Timestamp{})
	if err != nil {
		t.Fatal(err)
	}
	if cursor == nil {
		return nil
	}
	return readAll(t, cursor)
}

func documentsOf(t *testing.T, r *eventstore.Reader, from, until eventstore.Position) []bson.Raw {
	t.Helper()
	cursor, err := r.Open(t.Context(), from, until, bson.Timestamp{})
	if err != nil {
		t.Fatal(err)
	}
	if cursor == nil {
		return nil
	}
	return readAll(t, cursor)
}

// pages is a cursor of the event store.
type pages[T any] interface {
	Next(ctx context.Context) ([]T, error)
	Close(ctx context.Context) error
}

// readAll reads a cursor to its end, and closes it.
func readAll[T any](t *testing.T, cursor pages[T]) []T {
	t.Helper()
	var all []T
	for {
		page, err := cursor.Next(t.Context())
		if errors.Is(err, eventstore.ErrEnd) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page...)
	}
	if err := cursor.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return all
}

// TestRangesOfASplitHoldEveryAggregateOnce reads a store with ids of one type, and
// with documents that break the contract, range by range.
func TestRangesOfASplitHoldEveryAggregateOnce(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, events *mongo.Collection, ids string) {
		t.Helper()
		histories := histories(400, ids)
		documents := slices.Clone(brokenDocuments)
		want := make(map[string]history)
		for _, h := range histories {
			documents = append(documents, h.documents()...)
		}
		insert(t, events, documents)
		r := readerOf(t, events)
		for _, h := range histories {
			ev, err := r.Read(mustRaw(t, h.documents()[0]))
			if err != nil {
				t.Fatal(err)
			}
			want[ev.AggregateID] = h
		}
		for _, n := range []int{1, 2, 7, 64, 5000} {
			boundaries, err := r.Split(t.Context(), n)
			if err != nil {
				t.Fatal(err)
			}
			if len(boundaries) >= n || n > 1 && len(boundaries) == 0 {
				t.Fatalf("split by %d gives %d boundaries", n, len(boundaries))
			}
			seen := make(map[string]eventstore.Head)
			read := 0
			for _, bounds := range ranges(t, boundaries) {
				for _, head := range headsOf(t, r, bounds[0], bounds[1]) {
					if _, twice := seen[head.AggregateID]; twice {
						t.Errorf("aggregate %s is in two ranges of %d", head.AggregateID, n)
					}
					seen[head.AggregateID] = head
				}
				read += len(documentsOf(t, r, bounds[0], bounds[1]))
			}
			if read != len(documents) {
				t.Errorf("the ranges of %d hold %d documents, want %d", n, read, len(documents))
			}
			if len(seen) != len(want) {
				t.Errorf("the ranges of %d hold %d aggregates, want %d", n, len(seen), len(want))
			}
			for id, h := range want {
				if head := seen[id]; head.First != h.first || head.Last != h.last || head.Events != h.last-h.first+1 {
					t.Errorf("aggregate %s has the head %+v, want %+v", id, head, h)
				}
			}
		}
	})
}

// TestRangesAreInTheOrderOfEvents checks the order of events in one range.
func TestRangesAreInTheOrderOfEvents(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, events *mongo.Collection, ids string) {
		t.Helper()
		var documents []any
		for _, h := range histories(100, ids) {
			documents = append(documents, h.documents()...)
		}
		insert(t, events, documents)
		r := readerOf(t, events)
		var last eventstore.Position
		for i, document := range documentsOf(t, r, eventstore.Position{}, eventstore.Position{}) {
			at, ok := r.Position(document)
			if !ok {
				t.Fatalf("document %v has no position", document)
			}
			if order, known := r.Compare(last, at); i > 0 && (!known || order >= 0) {
				t.Fatalf("%v comes after %v: %d, %v", at, last, order, known)
			}
			last = at
		}
		// A range around one aggregate contains only that aggregate.
		if got := headsOf(t, r, eventstore.Before(last.AggregateID), eventstore.After(last.AggregateID)); len(got) != 1 || !got[0].RawAggregateID.Equal(last.AggregateID) {
			t.Errorf("the range of %v holds %v", last.AggregateID, got)
		}
		if got := documentsOf(t, r, last, last); got != nil {
			t.Errorf("an empty range holds %v", got)
		}
		if got := documentsOf(t, r, eventstore.After(last.AggregateID), eventstore.Before(last.AggregateID)); got != nil {
			t.Errorf("a range that ends before its beginning holds %v", got)
		}
	})
}

func TestSplitOfAnEmptyStoreHasNoBoundaries(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, events *mongo.Collection, _ string) {
		t.Helper()
		r := readerOf(t, events)
		absent := readerOf(t, withoutIndex(events))
		for name, r := range map[string]*eventstore.Reader{"empty": r, "absent": absent} {
			if boundaries, err := r.Split(t.Context(), 8); err != nil || len(boundaries) != 0 {
				t.Errorf("%s: %v, %v", name, boundaries, err)
			}
			if heads := headsOf(t, r, eventstore.Position{}, eventstore.Position{}); len(heads) != 0 {
				t.Errorf("%s: heads %v", name, heads)
			}
		}
		insert(t, events, history{id: "only", first: 1, last: 50}.documents())
		if boundaries, err := r.Split(t.Context(), 8); err != nil || len(boundaries) != 0 {
			t.Errorf("one aggregate: %v, %v", boundaries, err)
		}
	})
}

// withoutIndex is a collection that does not exist.
func withoutIndex(events *mongo.Collection) *mongo.Collection {
	return events.Database().Collection("absent")
}

// TestSplitIsEven divides stores of several sizes and shapes. Of the large ones, a sparse sample is
// read.
func TestSplitIsEven(t *testing.T) {
	t.Parallel()
	const n = 8
	for name, test := range map[string]struct {
		aggregates, events int
		// huge is the number of events of one additional aggregate.
		huge int
	}{
		"small":         {aggregates: 600, events: 4},
		"large":         {aggregates: 24_000, events: 4},
		"skewed, small": {aggregates: 300, events: 2, huge: 3000},
		"skewed, large": {aggregates: 20_000, events: 2, huge: 60_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && test.aggregates > 1000 {
				t.Skip("it stores 100,000 events: run make test-all")
			}
			client := mongoemutest.Connect(t, mongoemutest.Start(t, mongoemu.Config{}))
			events := withIndex(t, client.Database("shop").Collection("events"), true)
			var documents []any
			for i := range test.aggregates {
				documents = append(documents, history{id: fmt.Sprintf("a-%06d", i*7919%test.aggregates), first: 1, last: int64(test.events)}.documents()...)
			}
			if test.huge > 0 {
				documents = append(documents, history{id: "a-000100-huge", first: 1, last: int64(test.huge)}.documents()...)
			}
			insert(t, events, documents)
			r := readerOf(t, events)
			boundaries, err := r.Split(t.Context(), n)
			if err != nil {
				t.Fatal(err)
			}
			var sizes []int64
			for _, bounds := range ranges(t, boundaries) {
				size := int64(0)
				for _, head := range headsOf(t, r, bounds[0], bounds[1]) {
					if head.Events != int64(test.huge) {
						size += head.Events
					}
				}
				sizes = append(sizes, size)
			}
			// Beside the huge aggregate, no range has more than two equal parts.
			if most := int64(2 * len(documents) / n); slices.Max(sizes) > most {
				t.Errorf("%d ranges have %v events, at most %d are even", len(sizes), sizes, most)
			}
			if test.huge == 0 && len(sizes) != n {
				t.Errorf("%d ranges, want %d", len(sizes), n)
			}
			if test.huge > 0 && len(sizes) < 2 {
				t.Errorf("the huge aggregate is not apart: %d ranges", len(sizes))
			}
		})
	}
}

func mustRaw(t *testing.T, v any) bson.Raw {
	t.Helper()
	raw, err := bson.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestMissingReadsOneAggregateOfItsType reads an aggregate whose id looks like another
// aggregate's id of a different type.
func TestMissingReadsOneAggregateOfItsType(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, events *mongo.Collection, _ string) {
		t.Helper()
		documents := append(history{id: "7", first: 1, last: 9}.documents(), history{id: int32(7), first: 1, last: 4}.documents()...)
		insert(t, events, documents)
		r := readerOf(t, events)
		next, err := r.Read(mustRaw(t, history{id: int64(7), first: 5, last: 5}.documents()[0]))
		if err != nil {
			t.Fatal(err)
		}
		found, err := r.Missing(t.Context(), &next, 2, 9, 100)
		if err != nil {
			t.Fatal(err)
		}
		ids := make([]int64, len(found))
		for i, ev := range found {
			ids[i] = ev.EventID
		}
		if !slices.Equal(ids, []int64{2, 3, 4}) {
			t.Errorf("found %v", ids)
		}
		next.EventID = 5
		if _, err := r.Whole(t.Context(), &next); !errors.Is(err, eventstore.ErrNotFound) {
			t.Errorf("event 5: %v", err)
		}
	})
}

// TestFirstIDsAreThoseOfMostAggregates counts from 0 in more and more aggregates of a store that also
// has documents which break the contract. A single aggregate that begins elsewhere, also at an end of
// the index, does not change the answer.
func TestFirstIDsAreThoseOfMostAggregates(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, events *mongo.Collection, ids string) {
		t.Helper()
		fields := event.DefaultFields()
		fields.FirstEventID = 0
		zero := eventstore.NewReader(events, fields, zerolog.Nop())
		check := func(what string, refused bool) {
			t.Helper()
			if err := readerOf(t, events).CheckFirstID(t.Context()); errors.Is(err, eventstore.ErrFirstID) != refused || err != nil && !refused {
				t.Errorf("%s: %v", what, err)
			}
			// The events before an event 1 can be archived.
			if err := zero.CheckFirstID(t.Context()); err != nil {
				t.Errorf("%s, ids from 0: %v", what, err)
			}
		}
		check("empty", false)
		all := histories(4, ids)
		slices.SortFunc(all, func(a, b history) int { return strings.Compare(fmt.Sprintf("%020v", a.id), fmt.Sprintf("%020v", b.id)) })
		documents := slices.Clone(brokenDocuments)
		for _, h := range all {
			documents = append(documents, h.documents()...)
		}
		insert(t, events, documents)
		check("from 1", false)
		for i, h := range all {
			if _, err := events.InsertOne(t.Context(), bson.D{{Key: "aggregateId", Value: h.id}, {Key: "eventId", Value: 0}}); err != nil {
				t.Fatal(err)
			}
			if i != 1 { // half of them
				check(fmt.Sprintf("%d of 4 aggregates from 0", i+1), i > 1)
			}
		}
	})
}
