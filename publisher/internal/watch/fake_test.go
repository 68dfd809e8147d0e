package watch_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

// fakeStore is an event store in memory whose change streams behave like the server's.
// Tests choose its faults. It replaces the [watch.Source] and not the server, because
// silence and catching up take minutes of virtual time, in which sockets cannot be used.
type fakeStore struct {
	mu      sync.Mutex
	log     []bson.M
	grown   chan struct{}
	noops   int
	frozen  bool // post-batch tokens do not change
	opens   []watch.Position
	refuse  []error       // errors of the next opens
	faults  map[int]error // error when the change at that index would be read, once
	hang    bool          // the next requests are never answered
	deaf    bool          // pings are not answered either
	delay   time.Duration // time of each answer that has changes
	behind  time.Duration // how far replies are behind the newest operation, if not 0
	closed  int
	perNext int
}

// newFakeStore makes a store with some inserts.
func newFakeStore(inserts int) *fakeStore {
	s := &fakeStore{grown: make(chan struct{}), faults: map[int]error{}, perNext: 3}
	for range inserts {
		s.insert()
	}
	return s
}

var epoch = time.Unix(1_700_000_000, 0)

// token is the resume token after n changes and some noops. Like the server's, it is
// opaque.
func token(n, noops int) bson.Raw {
	return testkit.Raw(bson.M{"_data": fmt.Sprintf("%08x%08x", n, noops)})
}

func (s *fakeStore) append(operation string, fields bson.M) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.log)
	change := bson.M{
		"_id":           token(n+1, 0),
		"operationType": operation,
		"clusterTime":   bson.Timestamp{T: uint32(epoch.Unix()) + uint32(n), I: 1},
		"documentKey":   bson.M{"_id": n},
	}
	maps.Copy(change, fields)
	s.log = append(s.log, change)
	close(s.grown)
	s.grown = make(chan struct{})
}

// opened returns how many streams were opened.
func (s *fakeStore) opened() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.opens)
}

// with changes the store under its lock.
func (s *fakeStore) with(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *fakeStore) insert() {
	s.mu.Lock()
	n := len(s.log)
	s.mu.Unlock()
	s.append("insert", bson.M{"fullDocument": bson.M{"_id": n, "aggregateId": "a", "eventId": n + 1}})
}

func (s *fakeStore) Open(ctx context.Context, from watch.Position) (watch.ChangeStream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opens = append(s.opens, from)
	if len(s.refuse) > 0 {
		err := s.refuse[0]
		s.refuse = s.refuse[1:]
		return nil, err
	}
	if s.hang {
		s.mu.Unlock()
		<-ctx.Done()
		s.mu.Lock()
		return nil, ctx.Err()
	}
	if s.delay > 0 {
		s.mu.Unlock()
		err := poll.Wait(ctx, s.delay)
		s.mu.Lock()
		if err != nil {
			return nil, ctx.Err()
		}
	}
	at := 0
	switch {
	case from.Token != nil:
		at = s.indexOf(from.Token)
	case !from.Time.IsZero():
		at = max(0, int(from.Time.T)-int(epoch.Unix()))
	}
	return &fakeStream{store: s, at: at}, nil
}

func (s *fakeStore) indexOf(t bson.Raw) int {
	n, err := strconv.ParseUint(t.Lookup("_data").StringValue()[:8], 16, 32)
	if err != nil {
		panic(err)
	}
	return int(n)
}

// Ping answers as the server of the store does.
func (s *fakeStore) Ping(ctx context.Context) error {
	s.mu.Lock()
	deaf := s.deaf
	s.mu.Unlock()
	if deaf {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// fakeStream is one change stream of a fakeStore.
type fakeStream struct {
	store *fakeStore
	at    int
	ended bool
}

func (f *fakeStream) Next(ctx context.Context) (watch.Chunk, error) {
	s := f.store
	s.mu.Lock()
	hang, grown, have, delay := s.hang, s.grown, len(s.log) > f.at, s.delay
	s.mu.Unlock()
	switch {
	case have && delay > 0:
		if poll.Wait(ctx, delay) != nil {
			return watch.Chunk{}, ctx.Err()
		}
	case f.ended:
		return watch.Chunk{}, errors.New("cursor is closed")
	case hang:
		<-ctx.Done()
		return watch.Chunk{}, ctx.Err()
	case !have:
		select {
		case <-grown:
		case <-time.After(time.Second):
		case <-ctx.Done():
			return watch.Chunk{}, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var chunk watch.Chunk
	for len(chunk.Changes) < s.perNext && f.at < len(s.log) {
		if err, ok := s.faults[f.at]; ok {
			delete(s.faults, f.at)
			return watch.Chunk{}, err
		}
		change := s.log[f.at]
		chunk.Changes = append(chunk.Changes, testkit.Raw(change))
		f.at++
		if change["operationType"] == "invalidate" {
			f.ended = true
			break
		}
	}
	if len(chunk.Changes) == 0 && !s.frozen {
		s.noops++
	}
	chunk.Token = token(f.at, s.noops)
	if s.behind > 0 {
		now := time.Now()
		chunk.Newest.T, chunk.Time.T = uint32(now.Unix()), uint32(now.Add(-s.behind).Unix())
	}
	return chunk, nil
}

func (f *fakeStream) Close(context.Context) error {
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	f.store.closed++
	return nil
}

// recorder is a handler that stores the batches that it gets.
type recorder struct {
	mu      sync.Mutex
	ids     []int64
	batches []watch.Batch
	block   chan struct{}
	err     error
}

var errEnough = errors.New("enough")

func (r *recorder) handle(ctx context.Context, batch watch.Batch) error {
	if r.block != nil {
		select {
		case <-r.block:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches = append(r.batches, batch)
	for _, insert := range batch.Inserts {
		r.ids = append(r.ids, insert.Document.Lookup("eventId").AsInt64())
	}
	return r.err
}
