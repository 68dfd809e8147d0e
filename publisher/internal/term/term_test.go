package term

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
	"github.com/penstock-cdc/penstock/publisher/internal/quarantine"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

// setup is a worker with an event store and a topic in memory, and with collections of the
// MongoDB stand-in.
type setup struct {
	runner     *Runner
	store      *eventStore
	topic      *memoryTopic
	checkpoint *checkpointDocument
	quarantine quarantined
}

// newSetup must be called inside the bubble that uses the setup.
func newSetup(t *testing.T, random *rand.Rand) *setup {
	t.Helper()
	s := &setup{
		store:      newEventStore(),
		topic:      &memoryTopic{random: random},
		checkpoint: newCheckpointDocument(t),
		quarantine: newQuarantined(t),
	}
	var err error
	s.runner, err = New(Options{
		Config: config.Config{
			Fields:  event.DefaultFields(),
			Stream:  config.Stream{Start: "beginning", PrefetchBytes: 8 << 10},
			Publish: config.Publish{Encoding: string(event.EncodingBSON), Connections: 2, MaxInflightEvents: 40, CheckpointInterval: time.Second},
			Process: config.Process{DrainTimeout: 20 * time.Second},
		},
		Health:      health.New(),
		Registerer:  prometheus.NewRegistry(),
		Events:      streamSource{s.store},
		History:     historySource{s.store},
		Collection:  s.store.identify,
		Connect:     s.topic.connect,
		Checkpoints: checkpoint.NewStore(s.checkpoint, "events", checkpoint.Options{}),
		Quarantine:  quarantine.NewStore(s.quarantine, "events", quarantine.Options{}),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.runner.identity = checkpoint.Identity{Cluster: "replica set rs0", Database: "shop", Collection: "events", Topic: "events"}
	return s
}

// leading is a running term.
type leading struct {
	stop   func() // like a signal
	abort  func() // like the loss of the lease
	result chan error
}

// The time in which the work must end, with the default durations.
const (
	stopTime  = 30 * time.Second
	abortTime = 3 * time.Second
)

// tenure is a [leadership] whose lease the test controls.
type tenure struct {
	held context.Context //nolint:containedctx // as in leader.Term: this is the end of a span of time
	mu   sync.Mutex
	// limit is when the work must have ended; zero until it must.
	limit time.Time
}

func (l *tenure) Identity() string      { return "test" }
func (l *tenure) Held() context.Context { return l.held }

func (l *tenure) Remaining() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limit.IsZero() {
		return math.MaxInt64
	}
	return time.Until(l.limit)
}

func (l *tenure) advance(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := time.Now().Add(d); l.limit.IsZero() || at.Before(l.limit) {
		l.limit = at
	}
}

func (s *setup) lead(t *testing.T) *leading {
	t.Helper()
	held, abort := context.WithCancel(t.Context())
	ctx, stop := context.WithCancel(held)
	lease := &tenure{held: held}
	l := &leading{
		stop:   func() { lease.advance(stopTime); stop() },
		abort:  func() { lease.advance(abortTime); abort() },
		result: make(chan error, 1),
	}
	go func() { l.result <- s.runner.work(ctx, lease) }()
	return l
}

// end ends the term by how, and returns the term's error.
func (l *leading) end(how func()) error {
	how()
	err := <-l.result
	l.stop()
	l.abort()
	return err
}

// serve leads for some time, and stops.
func (s *setup) serve(t *testing.T, lasts time.Duration) {
	t.Helper()
	term := s.lead(t)
	pass(lasts)
	if err := term.end(term.stop); err != nil {
		t.Fatal(err)
	}
}

// published checks that the topic and the quarantine have what the event store has.
func (s *setup) published(t *testing.T) {
	t.Helper()
	if err := s.topic.check(s.store, s.quarantine); err != nil {
		t.Error(err)
	}
}

// kill ends the term like a crash: the last save fails.
func (s *setup) kill(l *leading) {
	s.checkpoint.freeze(true)
	_ = l.end(l.abort)
	s.checkpoint.freeze(false)
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }

func random() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

func TestATermStopsCleanlyAndTheNextOneResumes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, random())
		for n := range int64(100) {
			s.store.insert(fmt.Sprintf("a%d", n%7), 1+n/7, false)
		}
		s.serve(t, 10*time.Second)
		first := s.topic.count()
		s.published(t)
		if s.checkpoint.field("token") == nil || s.checkpoint.field("scan") != nil {
			t.Errorf("checkpoint is %v", s.checkpoint.Stored(t, bson.D{}))
		}
		if got := testutil.ToFloat64(s.runner.scans.WithLabelValues(scanBeginning)); got != 1 {
			t.Errorf("%v scans", got)
		}

		s.store.insert("a0", 16, false)
		s.serve(t, 10*time.Second)
		if got := s.topic.count(); got != first+1 {
			t.Errorf("the second term published %d events, want 1", got-first)
		}
		if epoch := s.checkpoint.field("epoch"); epoch != int64(2) {
			t.Errorf("epoch %v", epoch)
		}
	})
}

func TestStopDrainsEventsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, random())
		s.runner.start = config.StartPoint{Now: true}
		stalled := make(chan struct{})
		s.topic.stalled = stalled
		term := s.lead(t)
		pass(time.Second)
		s.store.fill("a", 20, false)
		pass(time.Second)
		began := time.Now()
		time.AfterFunc(5*time.Second, func() { close(stalled) })
		if err := term.end(term.stop); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("stopped after %v", took)
		}
		s.published(t)
		if token := s.checkpoint.field("token"); token == nil || token.(bson.M)["_data"].(string)[:8] != "00000014" {
			t.Errorf("saved %v, want the token of the 20th event", token)
		}
	})
}

func TestALostLeaseEndsATermAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, random())
		s.topic.stalled = make(chan struct{})
		s.store.fill("a", 20, false)
		term := s.lead(t)
		pass(5 * time.Second)
		began := time.Now()
		if err := term.end(term.abort); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("ended after %v", took)
		}
		if s.checkpoint.field("token") != nil {
			t.Errorf("saved %v, though nothing was accepted", s.checkpoint.Stored(t, bson.D{}))
		}
	})
}

func TestALaterClaimEndsATerm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, random())
		s.store.insert("a", 1, false)
		term := s.lead(t)
		pass(3 * time.Second)
		if _, err := s.runner.options.Checkpoints.Claim(t.Context(), "other", s.runner.identity); err != nil {
			t.Fatal(err)
		}
		s.store.insert("a", 2, false)
		if err := <-term.result; !errors.Is(err, checkpoint.ErrFenced) {
			t.Errorf("ended with %v", err)
		}
		term.abort()
	})
}

func TestAStartPointIsSavedBeforeTheFirstEvent(t *testing.T) {
	t.Parallel()
	at := time.Unix(clusterBase+3, 0)
	for name, test := range map[string]struct {
		start config.StartPoint
		want  int64 // the first published event
	}{
		"beginning": {config.StartPoint{}, 1},
		"now":       {config.StartPoint{Now: true}, 5},
		"a time":    {config.StartPoint{At: at}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSetup(t, random())
				s.runner.start = test.start
				s.store.fill("a", 5, false)
				// The first term crashes before it publishes anything.
				s.topic.stalled = make(chan struct{})
				term := s.lead(t)
				pass(500 * time.Millisecond)
				if err := term.end(term.abort); err != nil {
					t.Fatal(err)
				}
				s.store.insert("a", 6, false)
				s.topic.stalled = nil
				s.runner.start = config.StartPoint{Now: true} // has no effect any more
				s.serve(t, 5*time.Second)
				if first := s.topic.messages[0].EventID; first != test.want {
					t.Errorf("published from event %d, want %d", first, test.want)
				}
				if !s.topic.has("a/6") {
					t.Error("a/6, stored after the crash, was not published")
				}
			})
		})
	}
}

func TestARefusedTopicIsFatal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, random())
		s.topic.refuse = &publish.SendError{Fault: publish.FaultFatal, Err: errors.New("no such topic")}
		s.store.insert("a", 1, false)
		term := s.lead(t)
		err := <-term.result
		term.abort()
		if !Fatal(err) || !strings.Contains(err.Error(), "no such topic") {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestAClaimThatFailsEndsTheTerm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, random())
		s.checkpoint.fault = func() error { return io.ErrUnexpectedEOF }
		term := s.lead(t)
		if err := <-term.result; !errors.Is(err, io.ErrUnexpectedEOF) || Fatal(err) {
			t.Errorf("ended with %v", err)
		}
		term.abort()

		s.checkpoint.fault = func() error { return mongo.CommandError{Code: mongox.CodeUnauthorized} }
		term = s.lead(t)
		if err := <-term.result; !Fatal(err) || !strings.Contains(err.Error(), "grant the user readWrite") {
			t.Errorf("ended with %v", err)
		}
		term.abort()
	})
}

func TestFatal(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		fmt.Errorf("x: %w", watch.ErrRefused), fmt.Errorf("x: %w", eventstore.ErrIndex), fmt.Errorf("x: %w", eventstore.ErrNoOperationTime), errOplogTooShort,
		fmt.Errorf("x: %w", &publish.SendError{Fault: publish.FaultFatal, Err: io.EOF}),
	} {
		if !Fatal(err) {
			t.Errorf("%v passes", err)
		}
	}
	for _, err := range []error{
		nil, io.EOF, checkpoint.ErrFenced, watch.ErrHistoryLost,
		&publish.SendError{Fault: publish.FaultBusy, Err: io.EOF},
	} {
		if Fatal(err) {
			t.Errorf("%v is fatal", err)
		}
	}
}
