package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/workload"
)

const accountProjections = `
projections:
  - name: accounts
    collection: accounts
    on:
      Deposited: {inc: {deposits: "1"}}
`

// Several aggregates in every bucket are broken for two minutes. That is longer than a session
// is held, and longer than it takes to park an aggregate. Meanwhile all other events reach
// their read models as fast as before. When the fault ends, every read model becomes right
// by itself, although no publisher runs.
func TestBrokenAggregatesDelayNoOthers(t *testing.T) {
	// It measures how long events take, so only its own scenarios run meanwhile.
	const (
		accounts   = 16
		brokenFor  = 2 * time.Minute
		pause      = 100 * time.Millisecond
		collection = "accounts"
	)
	// The id of the event that is missing, by the reason for which aggregates are parked.
	for reason, hole := range map[string]int64{"unavailable": 0, "missing": 3, "history": 1} {
		runScene(t, reason, func(t *testing.T) {
			t.Helper()
			s := newScenario(t, &workload.Workload{
				Projections: []byte(accountProjections), Collections: []string{collection},
				Oracle: workload.Oracle{Fold: func(events []workload.Event) (string, bson.M) {
					return collection, bson.M{"deposits": int64(len(events))}
				}},
			})
			store := s.standIns("fail writes of single documents").Mongo
			s.SetEnv("PENSTOCK_SESSION_MODE=bucket", "PENSTOCK_SESSION_BUCKETS=4", "PENSTOCK_SESSION_TENURE=30s")
			s.start(1, 2)
			var broken []string
			var holes []workload.Event
			deposits := 0
			deposit := func() {
				ev := workload.Event{
					AggregateID: broken[deposits%accounts], AggregateType: "Account", EventID: int64(deposits/accounts) + 1,
					EventType: "Deposited", Timestamp: time.Now().UTC(), Payload: bson.D{},
				}
				deposits++
				if ev.EventID == hole {
					holes = append(holes, ev)
					return
				}
				s.insert(ev)
			}
			for i := range accounts {
				broken = append(broken, fmt.Sprint("broken-", i))
			}
			// A projector must have written something first, as evidence that writing works.
			for range accounts {
				deposit()
			}
			s.await("the first read models", func() bool { return s.documents(s.models.Collection(collection)) == s.documents(s.events) })
			if hole == 0 {
				store.FailDocuments(mongoemu.DocumentFault{Collection: collection, IDs: broken, Code: 6}) // HostUnreachable
			}
			begun, last := time.Now(), time.Now()
			s.startNeighbours(collection, "Account", "Deposited").while("the broken aggregates parked as "+reason, func() bool {
				if time.Since(last) >= pause {
					last = time.Now()
					deposit()
				}
				return time.Since(begun) > brokenFor && s.parked(bson.E{Key: "reason", Value: reason}) == accounts
			})
			s.awaitSaved(s.leader())
			s.stopped(s.leader())

			store.ClearFaults()
			if hole > 0 {
				s.insert(holes...)
			}
			s.awaitReadModels()
			s.await("all messages settled, none in the dead-letter queue, and nothing parked", func() bool {
				backlog, err := s.backend.Backlog()
				return err == nil && backlog == harness.Backlog{} && s.parked() == 0
			})
		})
	}
}
