package e2e_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// archivedProjections have a rule for snapshots, and a number that a second version changes.
const archivedProjections = `
snapshots: [Snapshotted]
projections:
  - name: ledgers
    collection: ledgers
    on:
      Counted: {inc: {n: payload.n, times: payload.n * %d}}
      Snapshotted: {set: {n: payload.n, times: payload.n * %[1]d}}
`

// TestHistoriesAreArchivedBehindSnapshots archives events under load, rebuilds the read models from
// what is left, and delivers messages of archived events again.
func TestHistoriesAreArchivedBehindSnapshots(t *testing.T) {
	scene(t, historiesAreArchivedBehindSnapshots)
}

func historiesAreArchivedBehindSnapshots(t *testing.T) {
	t.Helper()
	const still, busy = 10, 4
	version := func(n int) []byte { return fmt.Appendf(nil, archivedProjections, n) }
	s := newScenarioOn(t, &workload.Workload{Name: "archived", Projections: version(1), Collections: []string{"ledgers"}}, harness.TopicOptions{})
	s.start(1, 2)
	payload := func(n int64) bson.D { return bson.D{{Key: "n", Value: n}} }
	snapshot := func(id string, eventID, n int64) workload.Event {
		e := counted(id, eventID, payload(n))
		e.EventType = "Snapshotted"
		return e
	}
	archive := func(ctx context.Context, id string, before int64) {
		_, err := s.events.DeleteMany(ctx, bson.D{{Key: "aggregateId", Value: id}, {Key: "eventId", Value: bson.D{{Key: "$lt", Value: before}}}})
		if err != nil {
			t.Error(err)
		}
	}
	ledgers := s.models.Collection("ledgers")
	has := func(id string, want bson.D) bool {
		n, err := ledgers.CountDocuments(t.Context(), append(bson.D{{Key: "_id", Value: id}}, want...))
		return err == nil && n == 1
	}

	// The busy aggregates are archived every 20 events, whether a projector has them or not.
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	last, total := int64(0), int64(0)
	load.Go(func() {
		for ctx.Err() == nil {
			last++
			for i := range busy {
				id, e := fmt.Sprintf("busy-%d", i), counted(fmt.Sprintf("busy-%d", i), last, payload(1))
				if last%20 == 0 {
					e = snapshot(id, last, total)
				}
				_, _ = s.events.InsertOne(context.WithoutCancel(ctx), e)
				if last%20 == 0 {
					archive(context.WithoutCancel(ctx), id, last)
				}
			}
			if last%20 > 0 {
				total++
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	stopLoad := sync.OnceFunc(func() { stop(); load.Wait() })
	t.Cleanup(stopLoad)

	// The others are archived as docs/history.md says.
	for i := range still {
		id := fmt.Sprintf("still-%d", i)
		s.insert(counted(id, 1, payload(1)), counted(id, 2, payload(2)), counted(id, 3, payload(3)), snapshot(id, 4, 6), counted(id, 5, payload(1)))
	}
	verify := step{"projector verify --grace=5s", 0, "every read model equals the fold of its events"}
	times := func(n int64) func() bool {
		return func() bool {
			for i := range still {
				if !has(fmt.Sprintf("still-%d", i), bson.D{{Key: "lastEventId", Value: 5}, {Key: "n", Value: 7}, {Key: "times", Value: 7 * n}}) {
					return false
				}
			}
			return true
		}
	}
	s.await("the read models", times(1))
	s.steps(verify)
	for i := range still {
		archive(t.Context(), fmt.Sprintf("still-%d", i), 4)
	}
	s.steps(verify)

	s.rollOut(version(2), 2)
	s.awaitLive(map[string]int64{"ledgers": 2})
	s.await("the rebuilt read models", times(2))

	// A message of an archived event comes again.
	send := s.eventSender()
	for i := range still {
		send(fmt.Sprintf("late-%d", i), counted(fmt.Sprintf("still-%d", i), int64(i%3+1), payload(100)))
	}
	stopLoad()
	s.await("the last events", func() bool {
		backlog, err := s.backend.Backlog()
		all := err == nil && backlog.Active == 0
		for i := range busy {
			all = all && has(fmt.Sprintf("busy-%d", i), bson.D{{Key: "lastEventId", Value: last}, {Key: "n", Value: total}, {Key: "times", Value: 2 * total}})
		}
		return all
	})
	if !times(2)() {
		t.Error("a late message has changed a read model")
	}
	s.steps(verify, step{"projector parked list", 0, "no parked aggregates"})
}
