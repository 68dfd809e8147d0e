package e2e_test

import (
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

// A server that scans a long oplog may answer later than the silence allowed for a stream
// that has caught up. The publisher must wait for it, because giving up would start the
// server's scan again.
func TestPublisherWaitsForAStreamFarBehind(t *testing.T) { scene(t, publisherWaitsForAStreamFarBehind) }

func publisherWaitsForAStreamFarBehind(t *testing.T) {
	t.Helper()
	s := newScenario(t, shop.New(events, 12))
	store := capability[streamDelayer](s, "delay the replies of a change stream")
	s.SetEnv("PENSTOCK_STREAM_SILENCE=11s")
	s.start(1, 1)
	s.load(3 * time.Second)
	s.awaitPublished(0.2)
	s.leader().Kill()
	s.finishLoad()
	store.DelayStream(1, 16*time.Second)
	s.startPublisher(0)
	s.ready()
	s.invariants()
	s.await("a stream that has caught up", func() bool {
		return s.metric("publisher", "penstock_publisher_stream_caught_up") == 1
	})
	if reopened := s.metric("publisher", "penstock_publisher_stream_reopened_total"); reopened != 0 {
		t.Errorf("reopened the stream %v times while the server worked on its reply", reopened)
	}
}

// If a server answers neither the stream nor pings, the publisher reopens the stream,
// whether or not it had caught up.
func TestStreamOfADeadServerIsReopened(t *testing.T) { scene(t, streamOfADeadServerIsReopened) }

func streamOfADeadServerIsReopened(t *testing.T) {
	t.Helper()
	s := newScenario(t, shop.New(events, 13))
	store := capability[streamDelayer](s, "leave a change stream and pings without an answer")
	s.SetEnv("PENSTOCK_STREAM_SILENCE=11s")
	s.start(1, 1)
	s.load(3 * time.Second)
	s.awaitPublished(0.2)
	store.HangStream()
	// The second time, the stream is catching up.
	s.await("a stream that is reopened twice", func() bool {
		return s.metric("publisher", "penstock_publisher_stream_reopened_total", "cause", "error") >= 2
	})
	store.HealStore()
	// A stream is reopened within its term.
	s.checkTerms("published", s.invariants().Epochs, 1)
}
