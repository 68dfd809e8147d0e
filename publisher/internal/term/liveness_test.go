package term

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

// newConfigured makes a setup whose runner is made by [New], with the default durations.
func newConfigured(t *testing.T, h *health.Health) *setup {
	t.Helper()
	s := newSetup(t, random())
	made := s.runner
	var err error
	s.runner, err = New(Options{
		Config: config.Config{
			Fields: event.DefaultFields(),
			Stream: config.Stream{Start: "now", PrefetchBytes: 16 << 20, Silence: time.Minute},
			Publish: config.Publish{
				Encoding: string(event.EncodingBSON), SessionMode: string(event.SessionPerAggregate), ClaimCheck: true,
				Connections: 4, MaxInflightEvents: 8192, MaxInflightBytes: 64 << 20, CheckpointInterval: time.Second,
			},
			Refusals: config.Refusals{MaxAttempts: 5, FatalAfter: 10 * time.Minute},
			Process:  config.Process{DrainTimeout: 20 * time.Second},
		},
		Health: h, Registerer: prometheus.NewRegistry(), Logger: zerolog.Nop(),
		Events: made.options.Events, History: made.options.History, Collection: made.options.Collection,
		Connect:     made.publishing.Connect,
		Checkpoints: made.options.Checkpoints, Quarantine: made.options.Quarantine,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.runner.identity = made.identity
	return s
}

// stuckSender is a connection whose sends never return, even after their context has ended.
type stuckSender struct{ released chan struct{} }

func (s stuckSender) Send(context.Context, []*event.Message) (int, error) {
	<-s.released
	return 0, io.ErrClosedPipe
}

func (s stuckSender) Close(context.Context) error { return nil }

// stuckCheckpoint is a collection whose updates never return once stuck is closed.
type stuckCheckpoint struct {
	*checkpointDocument
	stuck, released chan struct{}
}

func (c stuckCheckpoint) UpdateOne(ctx context.Context, filter, update any, o ...options.Lister[options.UpdateOneOptions]) (*mongo.UpdateResult, error) {
	select {
	case <-c.stuck:
		<-c.released
	default:
	}
	return c.checkpointDocument.UpdateOne(ctx, filter, update, o...)
}

func TestLivenessNamesTheStuckLoop(t *testing.T) {
	t.Parallel()
	for name, stick := range map[string]func(s *setup, released chan struct{}) (stick func()){
		"dispatcher": func(s *setup, released chan struct{}) func() {
			s.runner.publishing.Connect = func(context.Context) (publish.Sender, error) { return stuckSender{released}, nil }
			return func() {}
		},
		"saver": func(s *setup, released chan struct{}) func() {
			stuck := make(chan struct{})
			collection := stuckCheckpoint{s.checkpoint, stuck, released}
			s.runner.options.Checkpoints = checkpoint.NewStore(collection, "events", checkpoint.Options{})
			return func() { close(stuck) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := health.New()
				s := newConfigured(t, h)
				released := make(chan struct{})
				stickNow := stick(s, released)
				term := s.lead(t)
				pass(10 * time.Minute)
				if err := h.Live(); err != nil {
					t.Fatalf("idle: %v", err)
				}
				stickNow()
				s.store.insert("a", 1, false)
				pass(4 * time.Minute)
				if err := h.Live(); err == nil || !strings.Contains(err.Error(), "loop "+name+" ") || strings.Contains(err.Error(), "\n") {
					t.Errorf("liveness says %v, want that the %s makes no progress", err, name)
				}
				close(released)
				pass(2 * time.Minute)
				if err := term.end(term.stop); err != nil {
					t.Error(err)
				}
				pass(10 * time.Minute)
				if err := h.Live(); err != nil {
					t.Errorf("after the term: %v", err)
				}
			})
		})
	}
}

// TestLivenessSucceedsWhileLoopsWait lets loops wait for a broker, for a database, or for
// events.
func TestLivenessSucceedsWhileLoopsWait(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(s *setup, down *atomic.Bool){
		"nothing to do": func(*setup, *atomic.Bool) {},
		"a throttled broker": func(s *setup, _ *atomic.Bool) {
			s.topic.refuse = &publish.SendError{Fault: publish.FaultBusy, Err: io.EOF}
		},
		"a broker that loses connections": func(s *setup, _ *atomic.Bool) {
			s.topic.refuse = &publish.SendError{Fault: publish.FaultDisconnected, Err: io.EOF}
		},
		"a broker that answers no send": func(s *setup, _ *atomic.Bool) { s.topic.stalled = make(chan struct{}) },
		"no connection to the broker": func(s *setup, down *atomic.Bool) {
			down.Store(true)
			s.topic.refuse = &publish.SendError{Fault: publish.FaultDisconnected, Err: io.EOF}
		},
		"saves that fail": func(s *setup, _ *atomic.Bool) {
			s.checkpoint.mu.Lock()
			defer s.checkpoint.mu.Unlock()
			s.checkpoint.fault = func() error { return io.ErrUnexpectedEOF }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := health.New()
				s := newConfigured(t, h)
				var down atomic.Bool
				connect := s.runner.publishing.Connect
				s.runner.publishing.Connect = func(ctx context.Context) (publish.Sender, error) {
					if down.Load() {
						return nil, io.ErrUnexpectedEOF
					}
					return connect(ctx)
				}
				term := s.lead(t)
				pass(time.Second)
				s.topic.mu.Lock()
				trouble(s, &down)
				s.topic.mu.Unlock()
				for round := range int64(40) {
					for n := range 20 {
						s.store.insert(fmt.Sprintf("b%d", n), round+1, false)
					}
					pass(30 * time.Second)
					if err := h.Live(); err != nil {
						t.Fatal(err)
					}
				}
				if err := term.end(term.abort); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
