package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// If no message can be read, or most events fail in a projection, nothing is dead-lettered.
// The projector says why. After a restart with the right settings, every read model is right.
func TestWrongProjectorDeadLettersNothing(t *testing.T) {
	scenesInParallel(t)
	for name, test := range map[string]struct {
		env     string
		replace [2]string
		// unready says that /readyz reports the reason instead of the log.
		unready bool
		says    []string
	}{
		"field names": {
			env:     "PENSTOCK_FIELD_AGGREGATE_ID=aggregate",
			unready: true,
			says: []string{
				"circuit breaker", "messages of topic", "are not events", "missing_aggregate_id: field aggregate.", `Check PENSTOCK_FIELD_AGGREGATE_ID, which is "aggregate"`,
				"restart with the right settings",
			},
		},
		"expression": {
			env:     "PENSTOCK_FAILURE_LIMIT=0.2",
			replace: [2]string{"payload.quantity * payload.priceCents", "payload.quantity * payload.price"},
			says:    []string{"a projection fails for most recent events of a type", `"eventType":"ItemAddedToOrderEvent"`, "no such key: price"},
		},
	} {
		runScene(t, name, func(t *testing.T) {
			t.Helper()
			w := shop.New(2000, 51)
			right := w.Projections
			w.Projections = bytes.Replace(w.Projections, []byte(test.replace[0]), []byte(test.replace[1]), 1)
			s := newScenarioOn(t, w, harness.TopicOptions{}, test.env)
			s.start(1, 1)
			s.load(time.Second)
			projector := s.started[len(s.started)-1]
			if test.unready {
				s.await("a projector that is not ready", func() bool {
					status, _ := readiness(t, projector)
					return status == http.StatusServiceUnavailable
				})
			} else {
				s.await("aggregates parked because their rule fails", func() bool { return s.parked("rule") > 0 })
			}
			s.awaitPublished(0.8)
			status, said := readiness(t, projector)
			if !test.unready {
				if status != http.StatusOK {
					t.Errorf("/readyz answers %d: %s", status, said)
				}
				said = s.log(projector)
			}
			for _, want := range test.says {
				if !strings.Contains(said, want) {
					t.Errorf("the projector does not say %q:\n%s", want, said)
				}
			}
			if status, text := get(t, projector, "/livez"); status != http.StatusOK {
				t.Errorf("/livez answers %d: %s", status, text)
			}
			if backlog, err := s.backend.Backlog(); err != nil || backlog.DeadLettered != 0 {
				t.Errorf("%d messages are dead-lettered (%v), not 0", backlog.DeadLettered, err)
			}
			if n, err := s.state.Collection("parked").CountDocuments(t.Context(), bson.D{{Key: "reason", Value: bson.D{{Key: "$ne", Value: "rule"}}}}); err != nil || n != 0 {
				t.Errorf("%d aggregates are parked for other reasons (%v), not 0", n, err)
			}
			stop(t, projector)

			file := filepath.Join(t.TempDir(), "projections.yaml")
			if err := os.WriteFile(file, right, 0o600); err != nil {
				t.Fatal(err)
			}
			s.SetEnv("PENSTOCK_FIELD_AGGREGATE_ID=aggregateId", "PENSTOCK_PROJECTIONS="+file)
			s.startProjector(0)
			s.invariants()
		})
	}
}

// Twelve junk messages, and then twelve events that a projection cannot apply, stop nobody
// else, neither when they arrive nor after a restart. The junk waits until the projector has
// read one event, because the settings may be wrong. The aggregates of the failing events are
// parked, and resume by themselves when the projection is corrected.
func TestBadInputStopsNobodyElse(t *testing.T) { scene(t, badInputStopsNobodyElse) }

func badInputStopsNobodyElse(t *testing.T) {
	t.Helper()
	const bad = 12
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{})
	s.start(1, 1)
	projector := s.started[len(s.started)-1]
	sender, err := s.busClient().NewSender(s.backend.Bus().Topic, nil)
	if err != nil {
		t.Fatal(err)
	}
	junk := make([]*azservicebus.Message, bad)
	for i := range junk {
		id := fmt.Sprint("junk-", i)
		junk[i] = &azservicebus.Message{SessionID: &id, MessageID: &id, Body: []byte("{}")}
		if err := sender.SendMessage(t.Context(), junk[i], nil); err != nil {
			t.Fatal(err)
		}
	}
	s.await("a projector that is not ready, because it could not read any message", func() bool {
		status, text := readiness(t, projector)
		return status == http.StatusServiceUnavailable && strings.Contains(text, "are not events")
	})

	var failing, neighbours []workload.Event
	for i := range bad {
		failing = append(failing, counted(fmt.Sprint("failing-", i), 1, bson.D{{Key: "n", Value: "7"}}))
		neighbours = append(neighbours, counted(fmt.Sprint("neighbour-", i), 1, one))
	}
	right := func(prefix, want string) func() bool {
		return func() bool {
			for i := range bad {
				if s.count(fmt.Sprint(prefix, i)) != want {
					return false
				}
			}
			return true
		}
	}
	s.insert(failing...)
	s.await("all failing aggregates parked", func() bool { return s.parked("rule") == bad })
	s.insert(neighbours...)
	s.await("the neighbours right", right("neighbour-", "n=1 after event 1"))
	s.awaitDeadLetters(bad)
	s.ready()

	s.stopped(projector)
	projector = s.startProjector(0)
	for i := range bad {
		neighbours[i] = counted(fmt.Sprint("neighbour-", i), 2, one)
	}
	s.insert(neighbours...)
	s.await("the neighbours right after a restart", right("neighbour-", "n=2 after event 2"))
	s.ready()
	if n := s.parked("rule"); n != bad {
		t.Errorf("%d aggregates are parked because their rule fails, want %d", n, bad)
	}

	s.stopped(projector)
	file := filepath.Join(t.TempDir(), "projections.yaml")
	corrected := strings.Replace(countsProjection, "payload.n", "int(payload.n)", 1)
	if err := os.WriteFile(file, []byte(corrected), 0o600); err != nil {
		t.Fatal(err)
	}
	s.SetEnv("PENSTOCK_PROJECTIONS=" + file)
	s.startProjector(0)
	s.await("the failing aggregates right", right("failing-", "n=7 after event 1"))
	s.await("no parked aggregate", func() bool { return s.parked("rule") == 0 })
}

// stop ends a process cleanly.
func stop(t *testing.T, p *harness.Process) {
	t.Helper()
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), settleTimeout())
	defer cancel()
	if err := p.AwaitExit(ctx); err != nil {
		t.Fatal(err)
	}
}
