package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
)

// numbered is the position of an event with a token that MongoDB could store.
func numbered(n int) checkpoint.Position {
	return checkpoint.Position{Token: token(string(rune('a' + n))), ClusterTime: bson.Timestamp{T: uint32(n)}}
}

// term is a running saver with its claim.
type term struct {
	*checkpoint.Saver
	collection *collection
	store      *checkpoint.Store
	watermark  *checkpoint.Watermark
	registry   *prometheus.Registry
	log        *bytes.Buffer
	stop       context.CancelFunc
	result     chan error
}

func newTerm(t *testing.T, config checkpoint.SaverConfig) *term {
	t.Helper()
	m := &term{
		collection: newCollection(t),
		watermark:  checkpoint.NewWatermark(),
		registry:   prometheus.NewRegistry(),
		log:        &bytes.Buffer{},
		result:     make(chan error, 1),
	}
	m.store = checkpoint.NewStore(m.collection, "events", checkpoint.Options{
		Registerer: m.registry, Logger: zerolog.New(m.log),
	})
	m.Saver = checkpoint.NewSaver(claim(t, m.store, "a"), m.watermark, config)
	ctx, cancel := context.WithCancel(t.Context())
	m.stop = cancel
	go func() { m.result <- m.Run(ctx) }()
	return m
}

// publish adds events and acknowledges them.
func (m *term) publish(t *testing.T, positions ...checkpoint.Position) {
	t.Helper()
	m.watermark.Ack(add(t, m.watermark, positions...)...)
}

func (m *term) expect(t *testing.T, p checkpoint.Position, updates int) {
	t.Helper()
	stored, n := m.collection.stored()
	got := checkpoint.Position{}
	if raw, ok := stored["token"].(bson.D); ok {
		got.Token, _ = bson.Marshal(raw)
		got.ClusterTime, _ = stored["clusterTime"].(bson.Timestamp)
	}
	if !same(got, p) {
		t.Errorf("stored position is %v, want %v", got, p)
	}
	if n != updates {
		t.Errorf("checkpoint was written %d times, want %d", n, updates)
	}
}

func (m *term) finish(t *testing.T) {
	t.Helper()
	m.stop()
	if err := <-m.result; err != nil {
		t.Errorf("Run returned %v", err)
	}
}

func TestSaverSavesChangesEverySecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newTerm(t, checkpoint.SaverConfig{})
		testkit.Pass(10 * time.Second)
		m.expect(t, checkpoint.Position{}, 0)
		m.publish(t, numbered(1), numbered(2))
		testkit.Pass(time.Second)
		m.expect(t, numbered(2), 1)
		testkit.Pass(time.Minute)
		m.expect(t, numbered(2), 1)
		for n := 3; n < 13; n++ { // ten events in a second cause one save
			m.publish(t, numbered(n))
			testkit.Pass(100 * time.Millisecond)
		}
		m.expect(t, numbered(12), 2)
		m.finish(t)
	})
}

func TestSaverSavesWhenIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newTerm(t, checkpoint.SaverConfig{})
		m.publish(t, numbered(1))
		testkit.Pass(time.Second)
		h := add(t, m.watermark, numbered(2))
		idle := checkpoint.Position{Token: token("idle")}
		m.watermark.Mark(idle)
		testkit.Pass(time.Minute) // one event is in flight, so its successor must not be saved
		m.expect(t, numbered(1), 1)
		m.watermark.Ack(h...)
		testkit.Pass(time.Second)
		// The mark has no cluster time, so the time of the last save stays.
		m.expect(t, checkpoint.Position{Token: idle.Token, ClusterTime: numbered(1).ClusterTime}, 2)
		for range 100 {
			m.watermark.Mark(idle)
			testkit.Pass(time.Second)
		}
		m.expect(t, checkpoint.Position{Token: idle.Token, ClusterTime: numbered(1).ClusterTime}, 2)
		m.finish(t)
	})
}

func TestSaverRetriesWithoutEndingTheTerm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newTerm(t, checkpoint.SaverConfig{})
		m.collection.order(errNetwork, false)
		m.publish(t, numbered(1))
		testkit.Pass(time.Minute)
		m.collection.order(nil, true) // requests hang: each is bounded
		testkit.Pass(time.Minute)
		m.publish(t, numbered(2))
		m.collection.order(nil, false)
		testkit.Pass(10 * time.Second)
		m.expect(t, numbered(2), 61)
		m.finish(t)
		if log := m.log.String(); strings.Count(log, "\n") != 2 ||
			!strings.Contains(log, "checkpoint not saved") || !strings.Contains(log, "saved again") {
			t.Errorf("log is\n%s\nwant the first failure and its end", log)
		}
	})
}

func TestSaverEndsWhenFenced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newTerm(t, checkpoint.SaverConfig{})
		claim(t, m.store, "b")
		m.publish(t, numbered(1))
		if err := <-m.result; !errors.Is(err, checkpoint.ErrFenced) {
			t.Errorf("Run returned %v, want ErrFenced", err)
		}
		if err := m.Flush(t.Context()); !errors.Is(err, checkpoint.ErrFenced) {
			t.Errorf("Flush returned %v, want ErrFenced", err)
		}
		m.expect(t, checkpoint.Position{}, 2)
	})
}

func TestFlushIsTheLastSave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newTerm(t, checkpoint.SaverConfig{Interval: time.Hour})
		h := add(t, m.watermark, numbered(1), numbered(2))
		m.finish(t)
		m.expect(t, checkpoint.Position{}, 0)
		m.watermark.Ack(h...) // the drain
		if err := m.Flush(t.Context()); err != nil {
			t.Errorf("Flush returned %v", err)
		}
		m.expect(t, numbered(2), 1)
		if err := m.Flush(t.Context()); err != nil { // nothing to do
			t.Errorf("Flush returned %v", err)
		}
		m.expect(t, numbered(2), 1)
	})
}

func TestFlushIsBounded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ left, want time.Duration }{
		"by the time that is left": {3 * time.Second, 3 * time.Second},
		"by the time of one save":  {time.Hour, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newTerm(t, checkpoint.SaverConfig{Interval: time.Hour})
				m.publish(t, numbered(1))
				m.finish(t)
				m.collection.order(nil, true)
				begun := time.Now()
				left, cancel := mongox.Timeout(t.Context(), test.left)
				defer cancel()
				if err := m.Flush(left); !errors.Is(err, mongox.ErrNoAnswer) {
					t.Errorf("Flush returned %v, want ErrNoAnswer", err)
				}
				if took := time.Since(begun); took != test.want {
					t.Errorf("Flush took %v, want %v", took, test.want)
				}
			})
		})
	}
}

// Flush repeats a save that the end of Run has interrupted.
func TestFlushAfterAnInterruptedSave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newTerm(t, checkpoint.SaverConfig{})
		m.collection.order(nil, true)
		m.publish(t, numbered(1))
		testkit.Pass(2 * time.Second)
		m.finish(t)
		m.collection.order(nil, false)
		if err := m.Flush(t.Context()); err != nil {
			t.Errorf("Flush returned %v", err)
		}
		m.expect(t, numbered(1), 1)
		if m.log.Len() > 0 {
			t.Errorf("an interrupted save was logged: %s", m.log)
		}
	})
}

func TestAgeOfTheCheckpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const age, window, epoch = "penstock_publisher_checkpoint_age_seconds",
			"penstock_publisher_checkpoint_window_events", "penstock_publisher_epoch"
		m := newTerm(t, checkpoint.SaverConfig{})
		testkit.Pass(30 * time.Second)
		if got := testkit.Metric(t, m.registry, age); got != 30 {
			t.Errorf("age is %v s, want 30 since the term began", got)
		}
		m.publish(t, numbered(1))
		testkit.Pass(time.Second)
		if got := testkit.Metric(t, m.registry, age); got != 0 {
			t.Errorf("age is %v s, want none", got)
		}
		add(t, m.watermark, numbered(2), numbered(3))
		testkit.Pass(20 * time.Second)
		if got := testkit.Metric(t, m.registry, age); got != 20 {
			t.Errorf("age is %v s, want 20: an event is not acknowledged", got)
		}
		if got := testkit.Metric(t, m.registry, window); got != 2 {
			t.Errorf("window is %v, want 2", got)
		}
		if got := testkit.Metric(t, m.registry, epoch); got != 1 {
			t.Errorf("epoch is %v, want 1", got)
		}
		m.finish(t)
		if err := m.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		if testkit.Metric(t, m.registry, age) != 0 || testkit.Metric(t, m.registry, window) != 0 {
			t.Error("age and window are reported for a term that is over")
		}
	})
}
