package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// loadTick is the interval at which the due events are stored.
const loadTick = 5 * time.Millisecond

// observer watches a change stream for the effects of events on their read models. Its
// owner stops it.
type observer struct {
	cancel context.CancelFunc
	ended  chan struct{}
	err    error

	mu sync.Mutex
	// stored has the times before the inserts of each aggregate's events, in their order.
	stored    map[string][]time.Time
	shown     map[string]int
	count     int
	latencies []time.Duration
	// from is the time after which stored events are measured.
	from time.Time
}

// warm ignores the latencies of the events that are stored during that time, because the
// first events open links and start accepts.
func (o *observer) warm(during time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.from = time.Now().Add(during)
}

// observe opens the stream and reads it in the background.
func (e *environment) observe(ctx context.Context) (*observer, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := e.client.Database(harness.ReadModelsDatabase).Watch(ctx, mongo.Pipeline{
		{{Key: "$match", Value: bson.D{{Key: "operationType", Value: bson.D{{Key: "$in", Value: bson.A{"insert", "update", "replace"}}}}}}},
		{{Key: "$project", Value: bson.D{
			{Key: "documentKey", Value: 1}, {Key: "fullDocument.lastEventId", Value: 1}, {Key: "updateDescription.updatedFields.lastEventId", Value: 1},
		}}},
	}, options.ChangeStream().SetBatchSize(4096))
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watch the read models: %w", err)
	}
	o := &observer{cancel: cancel, ended: make(chan struct{}), stored: make(map[string][]time.Time), shown: make(map[string]int)}
	go func() {
		defer close(o.ended)
		defer stream.Close(context.WithoutCancel(ctx))
		for stream.Next(ctx) {
			o.see(stream.Current, time.Now())
		}
		if err := stream.Err(); err != nil && !errors.Is(err, context.Canceled) {
			o.err = fmt.Errorf("watch the read models: %w", err)
		}
	}()
	return o, nil
}

// see records one change of a read model or of a side watermark.
func (o *observer) see(change bson.Raw, at time.Time) {
	id, ok := change.Lookup("documentKey", "_id").StringValueOK()
	if !ok {
		// The change is of a side watermark, whose key has the projection too.
		id, _ = change.Lookup("documentKey", "_id", "aggregateId").StringValueOK()
	}
	last, ok := change.Lookup("fullDocument", "lastEventId").AsInt64OK()
	if !ok {
		last, _ = change.Lookup("updateDescription", "updatedFields", "lastEventId").AsInt64OK()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	stored, from := o.stored[id], o.shown[id]
	to := min(int(last), len(stored))
	if to <= from {
		return
	}
	for _, since := range stored[from:to] {
		if since.Before(o.from) {
			continue
		}
		o.latencies = append(o.latencies, at.Sub(since))
	}
	o.shown[id], o.count = to, o.count+to-from
}

// store records that events are about to be stored.
func (o *observer) store(events []workload.Event) {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range events {
		id := events[i].AggregateID
		o.stored[id] = append(o.stored[id], now)
	}
}

// counted returns how many events the read models show.
func (o *observer) counted() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count
}

// take returns the latencies, sorted.
func (o *observer) take() []time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return sorted(o.latencies)
}

func (o *observer) stop() error {
	o.cancel()
	<-o.ended
	return o.err
}

// underLoad stores events while both services work, and measures until all stored events
// are in read models. due returns how many events must be stored after a time, given how
// many are shown; less than 0 ends the load.
func (e *environment) underLoad(ctx context.Context, o *observer, events []workload.Event, due func(elapsed time.Duration, shown int) int) (measured, error) {
	processes := e.pipeline.Running()
	var m meter
	begun := time.Now()
	if err := m.begin(ctx, 0, begun, processes); err != nil {
		return measured{}, err
	}
	stored, err := e.feed(ctx, o, events, due)
	if err != nil {
		return measured{}, err
	}
	if err := e.await(ctx, "all events in read models", func() (bool, error) {
		for _, p := range processes {
			if !p.Running() {
				return false, fmt.Errorf("%s has ended (%w); its log says\n%s", p.Name, p.Err(), logs(processes))
			}
		}
		return o.counted() >= stored, nil
	}); err != nil {
		return measured{}, fmt.Errorf("%d of %d: %w", o.counted(), stored, err)
	}
	return m.end(ctx, stored, time.Now())
}

func (e *environment) feed(ctx context.Context, o *observer, events []workload.Event, due func(elapsed time.Duration, shown int) int) (stored int, err error) {
	const limit = 1000
	tick := time.NewTicker(loadTick)
	defer tick.Stop()
	for begun := time.Now(); stored < len(events); {
		until := due(time.Since(begun), o.counted())
		if until < 0 {
			return stored, nil
		}
		for until = min(until, len(events)); stored < until; {
			batch := events[stored:min(until, stored+limit)]
			o.store(batch)
			if _, err := e.store.InsertMany(ctx, batch); err != nil {
				return stored, fmt.Errorf("store events: %w", err)
			}
			stored += len(batch)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return stored, context.Cause(ctx)
		}
	}
	return stored, nil
}
