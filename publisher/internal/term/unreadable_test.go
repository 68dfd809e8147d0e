package term

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/event/eventtest"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
	"github.com/penstock-cdc/penstock/publisher/internal/readable"
)

// misread configures a wrong field name for the event id.
func (s *setup) misread(t *testing.T) {
	t.Helper()
	fields := event.DefaultFields()
	fields.EventID = "eventNumber"
	reader, err := event.NewReader(fields)
	if err != nil {
		t.Fatal(err)
	}
	s.runner.reader, s.runner.options.Config.Fields = reader, fields
}

// TestWrongFieldNameStopsBeforeTheCheckpointMoves starts a publisher several times. Each
// run stops with an error at the same place.
func TestWrongFieldNameStopsBeforeTheCheckpointMoves(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]config.StartPoint{"scan": {}, "stream": {Now: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSetup(t, random())
				s.runner.start, s.runner.window = start, 1<<14
				s.runner.unreadable = readable.Limit{}
				s.misread(t)
				insert := func() {
					for n := range int64(2000) {
						s.store.insert(fmt.Sprintf("a%d", n%400), 1+n/400, false)
					}
				}
				if start.Now {
					// Save the start point before there are events to misread.
					s.serve(t, time.Second)
				}
				insert()
				for run := range 3 {
					term := s.lead(t)
					err := <-term.result
					term.abort()
					if !errors.Is(err, readable.ErrUnreadable) || !Fatal(err) {
						t.Fatalf("run %d ended with %v", run, err)
					}
					if !strings.Contains(err.Error(), `missing_event_id in field "eventNumber" (PENSTOCK_FIELD_EVENT_ID)`) || !strings.Contains(err.Error(), `"eventId"`) {
						t.Errorf("says %q", err)
					}
				}
				if n := len(s.quarantine.ids()); n != 0 {
					t.Errorf("%d events are in the quarantine", n)
				}

				// With the right name every event is published: the checkpoint has skipped
				// none.
				s.runner.reader, s.runner.options.Config.Fields = eventtest.Reader(), event.DefaultFields()
				s.serve(t, time.Minute)
				if got := s.topic.count(); got < 2000 {
					t.Errorf("%d of 2000 events are published", got)
				}
			})
		})
	}
}

func TestOnePoisonAggregateDoesNotStopThePublisher(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, random())
		s.runner.window = 1 << 14
		s.store.fill("poison", 1500, true)
		s.store.insert("healthy", 1, false)
		s.serve(t, time.Minute)
		s.published(t)
	})
}

// Unreadable events can be neighbours in the index, such as all ids of one type. They are
// few in the store, so a scan must go on, the first time and when the quarantine has them.
func TestUnreadableNeighboursDoNotStopAScan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, random())
		s.runner.window, s.runner.unreadable = 1<<14, readable.Limit{}
		for n := range int64(600) {
			s.store.insert(fmt.Sprintf("b%03d", n), 1, false)
		}
		for n := range int64(120) {
			s.store.insert(fmt.Sprintf("a%03d", n), 1, true)
		}
		lead := func() {
			t.Helper()
			s.serve(t, time.Minute)
			s.published(t)
		}
		lead()
		// The next scan finds all of them in the quarantine. It asks for no second opinion,
		// and does not stop although the store has hardly anything else.
		s.runner.options.Whole = func(context.Context) error { return errors.New("not needed") }
		s.store.insert("c", 1, false)
		s.store.trim(0)
		s.store.insert("c", 2, false)
		s.store.trim(0)
		lead()
		if got := testutil.ToFloat64(s.runner.scans.WithLabelValues(scanHistoryLost)); got != 1 {
			t.Errorf("%v recoveries", got)
		}
	})
}
