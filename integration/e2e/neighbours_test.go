package e2e_test

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// The limits of the chart's default containers: the memory limit, and the GOMEMLIMIT that
// the chart derives from it for each service.
const (
	chartMemory    = 512 << 20
	publisherGoMem = "GOMEMLIMIT=460MiB"
	projectorGoMem = "GOMEMLIMIT=409MiB"
)

const (
	// neighbourCount is how many aggregates a test under attack watches.
	neighbourCount = 10
	// neighbourPause is the time between two events of the neighbours.
	neighbourPause = 50 * time.Millisecond
	// neighbourLatency bounds the 99th percentile of the time from the insert of a
	// neighbour's event to its read model, or to the topic: beside other tests, one in a hundred takes
	// more than two seconds. Half of them must take a fifth of it.
	neighbourLatency = 10 * time.Second
)

// neighbours are aggregates that get events while a test attacks the services with
// others. Their events must reach the read models, or the topic, as fast as always.
type neighbours struct {
	s *scenario
	// watermarks reads the last event of each neighbour that has got there.
	watermarks func(context.Context) (map[string]int64, error)
	stop       context.CancelFunc
	work       sync.WaitGroup

	mu sync.Mutex
	// inserted has the time of each event's insert, by aggregate. Event ids count from 1.
	inserted map[string][]time.Time
	events   []workload.Event
	// seen is the watermark of each read model.
	seen map[string]int64
	took []time.Duration
}

// startNeighbours begins to insert events of the neighbours, whose payload is empty. The
// read models are in the collection.
func (s *scenario) startNeighbours(collection, aggregateType, eventType string) *neighbours {
	s.t.Helper()
	return s.startNeighboursUpTo(func(ctx context.Context) (map[string]int64, error) {
		return s.modelWatermarks(ctx, collection)
	}, aggregateType, eventType)
}

// startNeighboursUpTo is startNeighbours with another way to read how far the neighbours'
// events have got.
func (s *scenario) startNeighboursUpTo(watermarks func(context.Context) (map[string]int64, error), aggregateType, eventType string) *neighbours {
	s.t.Helper()
	ctx, stop := context.WithCancel(s.t.Context())
	n := &neighbours{s: s, watermarks: watermarks, stop: stop, inserted: map[string][]time.Time{}, seen: map[string]int64{}}
	n.work.Go(func() {
		pause := time.NewTicker(neighbourPause)
		defer pause.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			ev := workload.Event{
				AggregateID: fmt.Sprint("neighbour-", i%neighbourCount), AggregateType: aggregateType,
				EventID: int64(i/neighbourCount) + 1, EventType: eventType, Timestamp: time.Now().UTC(), Payload: bson.D{},
			}
			n.mu.Lock()
			n.inserted[ev.AggregateID] = append(n.inserted[ev.AggregateID], time.Now())
			n.events = append(n.events, ev)
			n.mu.Unlock()
			// An insert that has begun is completed, so that the workload has the event.
			if _, err := s.events.InsertOne(context.WithoutCancel(ctx), ev); err != nil {
				s.t.Errorf("store an event of a neighbour: %v", err)
				return
			}
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
		}
	})
	return n
}

// modelWatermarks reads the watermarks of the neighbours' read models.
func (s *scenario) modelWatermarks(ctx context.Context, collection string) (map[string]int64, error) {
	cursor, err := s.models.Collection(collection).Find(ctx,
		bson.D{{Key: "_id", Value: bson.D{{Key: "$regex", Value: "^neighbour-"}}}},
		options.Find().SetProjection(bson.D{{Key: "lastEventId", Value: 1}}))
	if err != nil {
		return nil, err
	}
	var models []struct {
		ID        string `bson:"_id"`
		Watermark int64  `bson:"lastEventId"`
	}
	if err := cursor.All(ctx, &models); err != nil {
		return nil, err
	}
	watermarks := make(map[string]int64, len(models))
	for _, model := range models {
		watermarks[model.ID] = model.Watermark
	}
	return watermarks, nil
}

// topicWatermarks reads the last event of each neighbour on the topic.
func (s *scenario) topicWatermarks(context.Context) (map[string]int64, error) {
	accepted, err := s.backend.Accepted()
	if err != nil {
		return nil, err
	}
	watermarks := make(map[string]int64)
	for _, m := range accepted {
		if strings.HasPrefix(m.AggregateID, "neighbour-") {
			watermarks[m.AggregateID] = max(watermarks[m.AggregateID], m.EventID)
		}
	}
	return watermarks, nil
}

// poll reads how far the events have got, and reports whether that is all of them.
func (n *neighbours) poll(ctx context.Context) (bool, error) {
	watermarks, err := n.watermarks(ctx)
	if err != nil {
		return false, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	for aggregate, watermark := range watermarks {
		for id := n.seen[aggregate]; id < watermark; id++ {
			n.took = append(n.took, now.Sub(n.inserted[aggregate][id]))
		}
		n.seen[aggregate] = max(n.seen[aggregate], watermark)
	}
	return len(n.took) == len(n.events), nil
}

// while runs an attack until it reports that it is over, and measures meanwhile. Then it
// awaits all events of the neighbours, and fails the test if they were late.
func (n *neighbours) while(attack string, over func() bool) {
	t := n.s.t
	t.Helper()
	read := func() (done bool) {
		done, err := n.poll(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	n.s.await(attack, func() bool { read(); return over() })
	n.stop()
	n.work.Wait()
	n.s.await("the events of all neighbours", read)
	n.s.workload.Events = append(n.s.workload.Events, n.events...)
	slices.SortFunc(n.took, cmp.Compare[time.Duration])
	p50, p99 := n.took[len(n.took)/2], n.took[(len(n.took)-1)*99/100]
	t.Logf("%d events of neighbours took %s (p50), %s (p99), %s at most", len(n.took), p50, p99, n.took[len(n.took)-1])
	if p99 > neighbourLatency || p50 > neighbourLatency/5 {
		t.Errorf("the events of neighbours took %s (p50) and %s (p99), more than %s (p99)", p50, p99, neighbourLatency)
	}
}

// fitsChart fails the test if a process has ended or had more memory than the chart's
// default container allows.
func (s *scenario) fitsChart(process *harness.Process) {
	s.t.Helper()
	if !process.Running() {
		s.t.Errorf("%s has ended: %v", process.Name, process.Err())
		return
	}
	if runtime.GOOS != "linux" {
		return // only Linux reports how much memory another process has had
	}
	had, err := process.OS.MaxResident()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Logf("%s had %d MiB at most", process.Name, had>>20)
	if had > chartMemory {
		s.t.Errorf("%s had %d MiB, more than the chart's %d", process.Name, had>>20, chartMemory>>20)
	}
}
