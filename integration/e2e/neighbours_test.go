package e2e_test

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// The limits of the chart's default containers: the memory limit, and the GOMEMLIMIT that
// the chart derives from it.
const (
	chartMemory     = 512 << 20
	chartGoMemLimit = "GOMEMLIMIT=460MiB"
)

const (
	// neighbourCount is how many aggregates a test under attack watches.
	neighbourCount = 10
	// neighbourPause is the time between two events of the neighbours.
	neighbourPause = 50 * time.Millisecond
	// neighbourLatency bounds the 99th percentile of the time from the insert of a
	// neighbour's event to its read model.
	neighbourLatency = 2 * time.Second
)

// neighbours are aggregates that get events while a test attacks the services with
// others. Their events must reach the read models as fast as always.
type neighbours struct {
	s          *scenario
	collection string
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
	ctx, stop := context.WithCancel(s.t.Context())
	n := &neighbours{s: s, collection: collection, stop: stop, inserted: map[string][]time.Time{}, seen: map[string]int64{}}
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

// poll reads the watermarks of the read models, and reports whether they have all events.
func (n *neighbours) poll(ctx context.Context) (bool, error) {
	cursor, err := n.s.models.Collection(n.collection).Find(ctx,
		bson.D{{Key: "_id", Value: bson.D{{Key: "$regex", Value: "^neighbour-"}}}},
		options.Find().SetProjection(bson.D{{Key: "lastEventId", Value: 1}}))
	if err != nil {
		return false, err
	}
	var models []struct {
		ID        string `bson:"_id"`
		Watermark int64  `bson:"lastEventId"`
	}
	if err := cursor.All(ctx, &models); err != nil {
		return false, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	for _, model := range models {
		for id := n.seen[model.ID]; id < model.Watermark; id++ {
			n.took = append(n.took, now.Sub(n.inserted[model.ID][id]))
		}
		n.seen[model.ID] = max(n.seen[model.ID], model.Watermark)
	}
	return len(n.took) == len(n.events), nil
}

// while runs an attack until it reports that it is over, and measures meanwhile. Then it
// awaits the read models of all events, and fails the test if they were late.
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
	n.s.await("the read models of all neighbours", read)
	n.s.workload.Events = append(n.s.workload.Events, n.events...)
	slices.SortFunc(n.took, cmp.Compare[time.Duration])
	p99 := n.took[(len(n.took)-1)*99/100]
	t.Logf("%d events of neighbours took %s (p50), %s (p99), %s at most", len(n.took), n.took[len(n.took)/2], p99, n.took[len(n.took)-1])
	if p99 > neighbourLatency {
		t.Errorf("the events of neighbours took %s (p99), more than %s", p99, neighbourLatency)
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
	had, err := process.MaxResident()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Logf("%s had %d MiB at most", process.Name, had>>20)
	if had > chartMemory {
		s.t.Errorf("%s had %d MiB, more than the chart's %d", process.Name, had>>20, chartMemory>>20)
	}
}
