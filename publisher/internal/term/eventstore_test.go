package term

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

// eventStore is an event store in memory: a log in the order of commits, an index over it,
// and an oplog that loses its oldest entries. It serves change streams and scans.
type eventStore struct {
	mu        sync.Mutex
	log       []storedEvent
	oplogFrom int // the oplog has lost the events before this index
	grown     chan struct{}
	// readFault returns the error of the next read of a stream or scan; nil means no
	// errors.
	readFault func() error
	// timeFault returns the error of the next request for the operation time; nil means no
	// errors.
	timeFault func() error
	// trimOnOpen empties the oplog whenever a stream is opened.
	trimOnOpen bool
	// hang lets the pages of scans wait for the end of their context.
	hang  bool
	page  int
	noops int
	// generation counts the collections that have had the name, of which only the last one
	// can be scanned; absent means that none has it now.
	generation int
	absent     bool
}

// storedEvent is one event. A poison event lacks its eventId. An entry that ends a collection
// has no aggregate. A removal is the delete of an event that no scan finds.
type storedEvent struct {
	id         int
	generation int
	aggregate  string
	number     int64
	poison     bool
	removal    bool
	document   bson.Raw
}

func (e storedEvent) ends() bool { return e.aggregate == "" }

const clusterBase = 1_700_000_000

func newEventStore() *eventStore {
	return &eventStore{grown: make(chan struct{}), page: 5}
}

func (s *eventStore) insert(aggregate string, number int64, poison bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := storedEvent{id: len(s.log), generation: s.generation, aggregate: aggregate, number: number, poison: poison}
	doc := bson.D{{Key: "_id", Value: e.id}, {Key: "aggregateId", Value: aggregate}}
	if !poison {
		doc = append(doc, bson.E{Key: "eventId", Value: number})
	}
	e.document = testkit.Raw(append(doc, bson.E{Key: "eventType", Value: "T"},
		bson.E{Key: "timestamp", Value: time.Unix(int64(timeOf(e.id).T), 0)}, bson.E{Key: "payload", Value: bson.D{{Key: "n", Value: number}}}))
	s.append(e)
}

// fill inserts the first n events of an aggregate.
func (s *eventStore) fill(aggregate string, n int64, poison bool) {
	for number := range n {
		s.insert(aggregate, number+1, poison)
	}
}

func (s *eventStore) append(e storedEvent) {
	s.log = append(s.log, e)
	close(s.grown)
	s.grown = make(chan struct{})
}

// remove deletes n events, of those that were archived.
func (s *eventStore) remove(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		s.append(storedEvent{id: len(s.log), generation: s.generation, aggregate: "archived", removal: true, document: testkit.Raw(bson.D{})})
	}
}

// rotate renames the collection away, and creates an empty one with its name.
func (s *eventStore) rotate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.append(storedEvent{id: len(s.log), generation: s.generation})
	s.generation++
}

// trim removes all but the last n events from the oplog, which always keeps the last one.
func (s *eventStore) trim(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.oplogFrom = max(s.oplogFrom, len(s.log)-max(n, 1))
}

// timeOf returns the cluster time of the i-th event.
func timeOf(i int) bson.Timestamp { return bson.Timestamp{T: uint32(clusterBase + i + 1), I: 1} }

func positionToken(n, noops int) bson.Raw {
	return testkit.Raw(bson.D{{Key: "_data", Value: fmt.Sprintf("%08x.%d", n, noops)}})
}

// LearnIDs says that all ids are strings.
func (*eventStore) CheckFirstID(context.Context) error { return nil }

func (*eventStore) LearnIDs(context.Context) (event.IDKind, error) { return event.IDString, nil }

func (s *eventStore) OperationTime(ctx context.Context) (bson.Timestamp, error) {
	if err := mongotest.CheckNoDeadline(ctx); err != nil {
		return bson.Timestamp{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timeFault != nil {
		if err := s.timeFault(); err != nil {
			return bson.Timestamp{}, err
		}
	}
	return timeOf(len(s.log) - 1), nil
}

func (s *eventStore) identify(ctx context.Context) (mongox.CollectionID, error) {
	if err := mongotest.CheckNoDeadline(ctx); err != nil {
		return mongox.CollectionID{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.absent {
		return mongox.CollectionID{}, nil
	}
	return mongox.CollectionID{Exists: true, UUID: fmt.Sprintf("uuid%d", s.generation)}, nil
}

func (s *eventStore) Ping(context.Context) error { return nil }

func (s *eventStore) openStream(from watch.Position) (watch.ChangeStream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trimOnOpen {
		s.oplogFrom = len(s.log) + 1
	}
	at := int(from.Time.T) - clusterBase - 1
	if from.Time.I > 1 {
		at++
	}
	if from.Token != nil {
		n, err := strconv.ParseInt(from.Token.Lookup("_data").StringValue()[:8], 16, 32)
		if err != nil {
			return nil, err
		}
		at = int(n)
	}
	if at < s.oplogFrom && s.oplogFrom > 0 {
		return nil, mongo.CommandError{Code: 286, Name: "ChangeStreamHistoryLost", Message: "resume point may no longer be in the oplog"}
	}
	return &storeStream{store: s, at: max(at, 0)}, nil
}

type storeStream struct {
	store *eventStore
	at    int
}

func (f *storeStream) Next(ctx context.Context) (watch.Chunk, error) {
	s := f.store
	s.mu.Lock()
	grown, have := s.grown, len(s.log) > f.at
	s.mu.Unlock()
	if !have {
		select {
		case <-grown:
		case <-time.After(time.Second):
		case <-ctx.Done():
			return watch.Chunk{}, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readFault != nil {
		if err := s.readFault(); err != nil {
			return watch.Chunk{}, err
		}
	}
	var chunk watch.Chunk
	for len(chunk.Changes) < s.page && f.at < len(s.log) {
		e := s.log[f.at]
		f.at++
		if e.ends() {
			for _, operation := range []string{"rename", "invalidate"} {
				chunk.Changes = append(chunk.Changes, testkit.Raw(bson.D{
					{Key: "_id", Value: positionToken(f.at, 0)},
					{Key: "operationType", Value: operation},
					{Key: "clusterTime", Value: timeOf(f.at - 1)},
					{Key: "wallTime", Value: time.Unix(int64(timeOf(f.at-1).T), 0)},
				}))
			}
			break
		}
		operation := "insert"
		if e.removal {
			operation = "delete"
		}
		chunk.Changes = append(chunk.Changes, testkit.Raw(bson.D{
			{Key: "_id", Value: positionToken(f.at, 0)},
			{Key: "operationType", Value: operation},
			{Key: "clusterTime", Value: timeOf(f.at - 1)},
			{Key: "wallTime", Value: time.Unix(int64(timeOf(f.at-1).T), 0)},
			{Key: "documentKey", Value: bson.D{{Key: "_id", Value: e.id}}},
			{Key: "fullDocument", Value: e.document},
		}))
	}
	if len(chunk.Changes) == 0 {
		s.noops++
	}
	chunk.Token = positionToken(f.at, s.noops)
	return chunk, nil
}

func (f *storeStream) Close(context.Context) error { return nil }

// historySource and streamSource adapt an eventStore to the interfaces of scans and
// streams.
type (
	historySource struct{ *eventStore }
	streamSource  struct{ *eventStore }
)

func (s streamSource) Open(_ context.Context, from watch.Position) (watch.ChangeStream, error) {
	return s.openStream(from)
}

func (s historySource) Compare(a, b eventstore.Position) (int, bool) {
	if a.AggregateID.Type != bson.TypeString || b.AggregateID.Type != bson.TypeString {
		return 0, false
	}
	return cmp.Or(cmp.Compare(a.AggregateID.StringValue(), b.AggregateID.StringValue()),
		cmp.Compare(a.EventID.AsInt64(), b.EventID.AsInt64())), true
}

func (s historySource) Open(_ context.Context, from, until eventstore.Position, _ bson.Timestamp) (eventstore.Cursor, error) {
	c := &storeCursor{store: s.eventStore}
	if !until.IsZero() {
		c.until = &storedEvent{aggregate: until.AggregateID.StringValue(), number: until.EventID.AsInt64()}
	}
	if !from.IsZero() {
		c.next = storedEvent{aggregate: from.AggregateID.StringValue(), number: from.EventID.AsInt64()}
	}
	return c, nil
}

func (s historySource) Position(document bson.Raw) (eventstore.Position, bool) {
	p := eventstore.Position{AggregateID: document.Lookup("aggregateId"), EventID: document.Lookup("eventId")}
	if p.EventID.Type == 0 {
		p.EventID = bson.RawValue{Type: bson.TypeInt64, Value: make([]byte, 8)}
	}
	return p, true
}

// storeCursor walks the index. Each page has the events that are stored when it is read.
type storeCursor struct {
	store *eventStore
	next  storedEvent
	until *storedEvent
}

func byIndex(a, b storedEvent) int {
	return cmp.Or(cmp.Compare(a.aggregate, b.aggregate), cmp.Compare(a.number, b.number), cmp.Compare(a.id, b.id))
}

func (c *storeCursor) Next(ctx context.Context) ([]bson.Raw, error) {
	// A page takes 20 ms, so that events are inserted meanwhile.
	if poll.Wait(ctx, 20*time.Millisecond) != nil {
		return nil, ctx.Err()
	}
	s := c.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readFault != nil {
		if err := s.readFault(); err != nil {
			return nil, err
		}
	}
	if s.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	index := slices.DeleteFunc(slices.Clone(s.log), func(e storedEvent) bool { return e.ends() || e.removal || e.generation < s.generation })
	for i := range index {
		if index[i].poison {
			index[i].number = 0
		}
	}
	slices.SortFunc(index, byIndex)
	at, _ := slices.BinarySearchFunc(index, c.next, byIndex)
	index = index[at:]
	if c.until != nil {
		end, _ := slices.BinarySearchFunc(index, *c.until, byIndex)
		index = index[:end]
	}
	if len(index) == 0 {
		return nil, eventstore.ErrEnd
	}
	index = index[:min(len(index), s.page)]
	var page []bson.Raw
	for _, e := range index {
		page = append(page, e.document)
	}
	c.next = index[len(index)-1]
	c.next.id++
	return page, nil
}

func (c *storeCursor) Close(context.Context) error { return nil }
