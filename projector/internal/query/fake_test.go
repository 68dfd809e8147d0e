package query_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/query"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// source is a source in memory.
type source struct {
	mu       sync.Mutex
	names    []string
	statuses map[query.Key]query.Status
	heads    map[string]int64
	err      error
	// silent lets lookups wait for the end of their context.
	silent bool
	// lookups are the numbers of keys of the lookups.
	lookups []int
	// duplicates counts keys that were asked for twice in one lookup.
	duplicates int
}

func newSource() *source {
	return &source{names: []string{"orders", "users"}, statuses: make(map[query.Key]query.Status), heads: make(map[string]int64)}
}

func (s *source) Projections() []string { return s.names }

func (s *source) LookUp(ctx context.Context, keys []query.Key) ([]query.Status, error) {
	if s.silent {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lookups = append(s.lookups, len(keys))
	if s.err != nil {
		return nil, s.err
	}
	seen := make(map[query.Key]bool)
	statuses := make([]query.Status, len(keys))
	for i, key := range keys {
		if seen[key] {
			s.duplicates++
		}
		seen[key] = true
		statuses[i] = s.statuses[key]
	}
	return statuses, nil
}

func (s *source) Head(_ context.Context, aggregateID string) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heads[aggregateID], s.err
}

// set changes the status of an aggregate in users.
func (s *source) set(aggregateID string, status query.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statuses[query.Key{Projection: "users", AggregateID: aggregateID}] = status
}

func (s *source) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// takeLookups returns and clears the lookups so far.
func (s *source) takeLookups() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	lookups := s.lookups
	s.lookups = nil
	return lookups
}

// service is a handler with a poller that runs until the test ends.
type service struct {
	*source
	handler  http.Handler
	poller   *query.Poller
	registry *prometheus.Registry
	// stop ends the poller.
	stop func()
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{source: newSource(), registry: prometheus.NewPedanticRegistry()}
	s.poller = query.NewPoller(s.source, zerolog.Nop())
	s.handler = query.NewHandler(s.poller, 1, s.registry)
	s.stop = testkit.Start(t, s.poller.Run)
	return s
}

// get sends a request, and returns the HTTP status, the answer and the error text.
func (s *service) get(ctx context.Context, t *testing.T, target string) (int, query.Answer, string) {
	t.Helper()
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil).WithContext(ctx))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	if retry := w.Header().Get("Retry-After"); (retry != "") != (w.Code == http.StatusServiceUnavailable) {
		t.Errorf("status %d with Retry-After %q", w.Code, retry)
	}
	var answer struct {
		query.Answer
		Error string `json:"error"`
	}
	if len(body) > 0 {
		if err := json.Unmarshal(body, &answer); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
	}
	return w.Code, answer.Answer, answer.Error
}
