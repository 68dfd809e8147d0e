package e2e_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

// A projector whose definition fails for all its input settles nothing, is not ready and
// says why. After a restart with the right definition, every read model is right.
func TestWrongProjectorSettlesNothing(t *testing.T) {
	inParallel(t)
	for name, test := range map[string]struct {
		env     string
		replace [2]string
		says    []string
	}{
		"field names": {
			env: "PENSTOCK_FIELD_AGGREGATE_ID=aggregate",
			says: []string{
				"messages of topic", "are not events", "missing_aggregate_id: field aggregate.", `Check PENSTOCK_FIELD_AGGREGATE_ID, which is "aggregate"`,
				"restart with the right settings",
			},
		},
		"expression": {
			env:     "PENSTOCK_FAILURE_LIMIT=0.2",
			replace: [2]string{"payload.quantity * payload.priceCents", "payload.quantity * payload.price"},
			says: []string{
				"projection orders cannot apply", "events of type ItemAddedToOrderEvent (expression)", "no such key: price", "Correct the projection and roll it out",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inParallel(t)
			w := shop.New(2000, 51)
			right := w.Projections
			w.Projections = bytes.Replace(w.Projections, []byte(test.replace[0]), []byte(test.replace[1]), 1)
			s := newScenarioOn(t, w, harness.TopicOptions{}, test.env)
			s.start(1, 1)
			s.load(time.Second)
			projector := s.started[len(s.started)-1]
			var said string
			s.await("a projector that is not ready", func() bool {
				status, text := readiness(t, projector)
				said = text
				return status == http.StatusServiceUnavailable && strings.Contains(text, "circuit breaker")
			})
			for _, want := range test.says {
				if !strings.Contains(said, want) {
					t.Errorf("/readyz does not say %q:\n%s", want, said)
				}
			}
			if status, text := get(t, "http://"+projector.Admin+"/livez"); status != http.StatusOK {
				t.Errorf("/livez answers %d: %s", status, text)
			}
			s.awaitPublished(0.8)
			if backlog, err := s.backend.Backlog(); err != nil || backlog.DeadLettered != 0 {
				t.Errorf("%d messages are dead-lettered (%v), not 0", backlog.DeadLettered, err)
			}
			if n, err := s.state.Collection("parked").CountDocuments(t.Context(), bson.D{}); err != nil || n != 0 {
				t.Errorf("%d aggregates are parked (%v), not 0", n, err)
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

func readiness(t *testing.T, p *harness.Process) (int, string) {
	t.Helper()
	return get(t, "http://"+p.Admin+"/readyz")
}

func get(t *testing.T, url string) (status int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
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
