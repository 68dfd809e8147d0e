package term

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
)

// replaced reports whether the term ended with the sentence about the replaced collection.
func replaced(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, ErrReplaced) || !Fatal(err) || !strings.Contains(err.Error(), "publisher checkpoint set beginning --why") {
		t.Fatalf("the term ended with %v", err)
	}
}

// TestRotationUnderABacklog rotates the collection while events of a blocked key wait.
func TestRotationUnderABacklog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, random())
		s.runner.publishing.MaxAttempts = 1_000_000
		s.topic.refuses = func(m *event.Message) bool { return m.AggregateID == "blocked" }
		s.serve(t, time.Second)
		term := s.lead(t)
		for n := range int64(200) {
			s.store.insert("blocked", n+1, false)
			s.store.insert("fast", n+1, false)
		}
		pass(time.Minute)
		s.store.rotate()
		pass(time.Minute)
		s.topic.mu.Lock()
		s.topic.refuses = nil
		s.topic.mu.Unlock()
		replaced(t, <-term.result)
		s.published(t)
		if n := len(s.quarantine.ids()); n > 0 {
			t.Errorf("%d events are in the quarantine", n)
		}
	})
}

// TestAScanObeysTheStart has a stream that began at "now", and whose checkpoint is released to
// another deployment: the scan there must not publish what is older than the start.
func TestAScanObeysTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, random())
		s.store.fill("a", 100, false)
		s.runner.start = config.StartPoint{Now: true}
		s.serve(t, time.Second)
		s.store.fill("b", 5, false)
		s.serve(t, 10*time.Second)
		other := s.runner.identity
		other.Cluster = "replica set rs1"
		checkpoints := s.runner.options.Checkpoints
		if _, err := checkpoints.Claim(t.Context(), "test", other); !errors.Is(err, checkpoint.ErrOtherPipeline) {
			t.Fatal(err)
		}
		read, err := checkpoints.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := checkpoints.Release(t.Context(), read, "ada", other); err != nil {
			t.Fatal(err)
		}
		s.runner.identity = other
		s.serve(t, time.Minute)
		if s.topic.has("a/1") || !s.topic.has("b/5") {
			t.Errorf("published: %d events, a/1 %v, b/5 %v", s.topic.count(), s.topic.has("a/1"), s.topic.has("b/5"))
		}
	})
}

// TestScanEndsWithTheNameOfItsCollection renames the collection away while it is scanned: it
// then reads as empty, and the error must say what is not published.
func TestScanEndsWithTheNameOfItsCollection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, random())
		s.fill(20, 20)
		term := s.lead(t)
		pass(time.Second)
		s.store.rotate()
		err := <-term.result
		replaced(t, err)
		if !strings.Contains(err.Error(), "its scan had not ended") {
			t.Errorf("says %v", err)
		}
	})
}
