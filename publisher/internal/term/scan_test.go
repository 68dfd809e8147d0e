package term

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
)

// fill stores the given number of events for each of the aggregates.
func (s *setup) fill(aggregates int, events int64) {
	for n := range events {
		for a := range aggregates {
			s.store.insert(fmt.Sprintf("a%03d", a), n+1, false)
		}
	}
}

// scanBeside scans the event store, which takes 8 s, while the events change, and checks that all
// events are published and that the oplog did not lose the stream.
func scanBeside(t *testing.T, change func(s *setup)) *setup {
	t.Helper()
	s := newSetup(t, random())
	s.runner.stretch = 300 * time.Millisecond
	s.fill(200, 10)
	term := s.lead(t)
	change(s)
	if err := term.end(term.stop); err != nil {
		t.Fatal(err)
	}
	s.published(t)
	if lost := testutil.ToFloat64(s.runner.scans.WithLabelValues(scanHistoryLost)); lost != 0 {
		t.Errorf("the oplog lost the stream %v times", lost)
	}
	return s
}

// The oplog reaches back 1 s while events are inserted before and after the scan's position.
func TestScanLongerThanTheOplogEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := scanBeside(t, func(s *setup) {
			for n := range int64(30) {
				pass(500 * time.Millisecond)
				s.store.insert("a000", 11+n, false)
				s.store.insert("a199", 11+n, false)
				s.store.trim(4)
			}
			pass(5 * time.Second)
		})
		// Each stretch repeats an event, and the events that were stored during the last
		// one.
		if repeated := s.topic.count() - len(s.store.log); repeated > len(s.store.log)/10 {
			t.Errorf("%d of %d events are published twice", repeated, len(s.store.log))
		}
	})
}

// The oplog reaches back 3 s while an archive deletes 200 events a second.
func TestScanLongerThanTheOplogEndsWhileEventsAreDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		scanBeside(t, func(s *setup) {
			for range 150 {
				pass(100 * time.Millisecond)
				s.store.remove(20)
				s.store.trim(600)
			}
		})
	})
}

// A scan leaves the change stream alone in each stretch, also while the topic slows it down.
func TestScanIsNotReportedAsAStreamThatIsBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, random())
		s.fill(200, 20)
		s.store.page = 40
		s.topic.stalled = make(chan struct{})
		term := s.lead(t)
		for range 100 {
			pass(3 * time.Second)
			if v := s.runner.options.Health.Verdict(); v.State != health.OK {
				t.Fatalf("the verdict is %v", v)
			}
			s.topic.mu.Lock()
			close(s.topic.stalled)
			s.topic.stalled = make(chan struct{})
			s.topic.mu.Unlock()
		}
		if s.checkpoint.field("scan") == nil {
			t.Error("the scan has ended too early")
		}
		_ = term.end(term.abort)
	})
}

// Every term is shorter than the scan, and the oplog loses the stream between the first terms.
func TestScanContinuesAfterRestarts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, random())
		s.runner.saving.Interval = 100 * time.Millisecond
		s.fill(200, 10)
		terms := 0
		for ; s.checkpoint.field("token") == nil; terms++ {
			if terms == 30 {
				t.Fatalf("the scan has not ended after %d terms", terms)
			}
			term := s.lead(t)
			pass(2 * time.Second)
			if err := term.end(term.stop); err != nil {
				t.Fatal(err)
			}
			s.store.insert("a000", int64(11+terms), false)
			if terms < 3 {
				s.store.trim(1)
			}
		}
		s.serve(t, 5*time.Second)
		s.published(t)
		// The scan takes 8 s, and the loss one more scan.
		if terms < 8 || terms > 11 {
			t.Errorf("the scans took %d terms of 2 s", terms)
		}
	})
}

// An election of MongoDB must not end the term: a scan notes the operation time after each
// stretch.
func TestScanContinuesAfterAnElection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, random())
		s.runner.stretch = 300 * time.Millisecond
		var beat atomic.Int64
		s.runner.watching.Beat = func() { beat.Store(time.Now().UnixNano()) }
		s.runner.scanning.Beat = s.runner.watching.Beat
		s.fill(100, 20)
		term := s.lead(t)
		pass(time.Second)
		s.store.mu.Lock()
		s.store.timeFault = func() error {
			return mongo.CommandError{Code: 189, Name: "PrimarySteppedDown"}
		}
		s.store.mu.Unlock()
		pass(time.Minute)
		if silence := time.Since(time.Unix(0, beat.Load())); silence > 10*time.Second {
			t.Errorf("no heartbeat for %v of the election", silence)
		}
		s.store.mu.Lock()
		s.store.timeFault = nil
		s.store.mu.Unlock()
		pass(5 * time.Minute)
		select {
		case err := <-term.result:
			t.Fatalf("the term ended with %v", err)
		default:
		}
		if err := term.end(term.stop); err != nil {
			t.Fatal(err)
		}
		s.published(t)
	})
}

func TestRepeatedLossesAreExplained(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, random())
		s.runner.stretch = 200 * time.Millisecond
		s.store.trimOnOpen = true
		s.fill(200, 10)
		term := s.lead(t)
		err := <-term.result
		term.abort()
		if !errors.Is(err, errOplogTooShort) || !Fatal(err) || !strings.Contains(err.Error(), "replSetResizeOplog") ||
			!strings.Contains(err.Error(), "4 times") {
			t.Errorf("ended with %v", err)
		}
	})
}

// A checkpoint with a later time than its token would go back with the next change.
func TestStreamAfterAScanHasTheTimeOfItsToken(t *testing.T) {
	t.Parallel()
	noted := bson.Timestamp{T: 0x6B011029, I: 1}
	for data, want := range map[string]bson.Timestamp{"826B01102800000007": {T: 0x6B011028, I: 7}, "unknown": noted} {
		token := testkit.Raw(bson.D{{Key: "_data", Value: data}})
		got := streamAfter(checkpoint.Scan{OperationTime: noted, Token: token})
		if got.ClusterTime != want || !bytes.Equal(got.Token, token) {
			t.Errorf("the stream starts at %v, not with the token %s at %v", got, token, want)
		}
	}
}
