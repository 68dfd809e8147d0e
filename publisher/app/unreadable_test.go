package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
	"github.com/penstock-cdc/penstock/publisher/internal/quarantine"
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
	s.worker.reader, s.worker.fields = reader, fields
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
				s.worker.start, s.worker.window = start, 1<<14
				s.worker.unreadable = readable.Limit{}
				s.misread(t)
				insert := func() {
					for n := range int64(2000) {
						s.store.insert(fmt.Sprintf("a%d", n%400), 1+n/400, false)
					}
				}
				if start.Now {
					// Save the start point before there are events to misread.
					term := s.lead(t)
					pass(time.Second)
					if err := term.end(term.stop); err != nil {
						t.Fatal(err)
					}
				}
				insert()
				for run := range 3 {
					term := s.lead(t)
					err := <-term.result
					term.abort()
					if !errors.Is(err, readable.ErrUnreadable) || !fatal(err) {
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
				reader, err := event.NewReader(event.DefaultFields())
				if err != nil {
					t.Fatal(err)
				}
				s.worker.reader, s.worker.fields = reader, event.DefaultFields()
				term := s.lead(t)
				pass(time.Minute)
				if err := term.end(term.stop); err != nil {
					t.Fatal(err)
				}
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
		s.worker.window = 1 << 14
		for n := range int64(1500) {
			s.store.insert("poison", n+1, true)
		}
		s.store.insert("healthy", 1, false)
		term := s.lead(t)
		pass(time.Minute)
		if err := term.end(term.stop); err != nil {
			t.Fatal(err)
		}
		if err := s.topic.check(s.store, s.quarantine); err != nil {
			t.Error(err)
		}
	})
}

// Unreadable events can be neighbours in the index, such as all ids of one type. They are
// few in the store, so a scan must go on, the first time and when the quarantine has them.
func TestUnreadableNeighboursDoNotStopAScan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSetup(t, random())
		s.worker.window, s.worker.unreadable = 1<<14, readable.Limit{}
		for n := range int64(600) {
			s.store.insert(fmt.Sprintf("b%03d", n), 1, false)
		}
		for n := range int64(120) {
			s.store.insert(fmt.Sprintf("a%03d", n), 1, true)
		}
		lead := func() {
			t.Helper()
			term := s.lead(t)
			pass(time.Minute)
			if err := term.end(term.stop); err != nil {
				t.Fatal(err)
			}
			if err := s.topic.check(s.store, s.quarantine); err != nil {
				t.Error(err)
			}
		}
		lead()
		// The next scan finds all of them in the quarantine. It asks for no second opinion,
		// and does not stop although the store has hardly anything else.
		s.worker.whole = func(context.Context) error { return errors.New("not needed") }
		s.store.insert("c", 1, false)
		s.store.trim(0)
		s.store.insert("c", 2, false)
		s.store.trim(0)
		lead()
		if got := testutil.ToFloat64(s.worker.scans.WithLabelValues(scanHistoryLost)); got != 1 {
			t.Errorf("%v recoveries", got)
		}
	})
}

// The running process accepted events that a sample at the start must not refuse. They are
// in the quarantine, so they are known.
func TestStartAcceptsWhatIsQuarantined(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	database := server.Database(t)
	s := &stores{events: database.Collection("events"), state: database}
	c := config.Config{Fields: event.DefaultFields()}
	c.Stream.Name, c.Stream.Unreadable = "events", 0.5
	check := func() error { return checkReadable(ctx, s.readable(c), zerolog.Nop()) }
	var entries []quarantine.Entry
	for i := range 100 {
		document := bson.D{{Key: "_id", Value: i}, {Key: "aggregateId", Value: fmt.Sprint("a", i)}, {Key: "eventType", Value: "T"}}
		if i < 30 {
			document = append(document, bson.E{Key: "eventId", Value: 1})
		} else {
			entries = append(entries, quarantine.Entry{DocumentID: mustRaw(document).Lookup("_id"), Reason: event.ReasonMissingEventID})
		}
		if _, err := s.events.InsertOne(ctx, document); err != nil {
			t.Fatal(err)
		}
	}
	if err := check(); !errors.Is(err, readable.ErrUnreadable) || !strings.Contains(err.Error(), "70 of 100") {
		t.Errorf("70 new unreadable events: %v", err)
	}
	if err := quarantine.NewStore(s.state.Collection(quarantine.CollectionName), "events", quarantine.Options{}).Put(ctx, 1, entries[5:]...); err != nil {
		t.Fatal(err)
	}
	if err := check(); err != nil {
		t.Errorf("5 new ones, 65 that are in the quarantine: %v", err)
	}
	if err := s.readable(c).Whole(ctx); err != nil {
		t.Errorf("the whole store: %v", err)
	}
	// Another stream has its own quarantine.
	c.Stream.Name = "other"
	if err := s.readable(c).Whole(ctx); !errors.Is(err, readable.ErrUnreadable) {
		t.Errorf("another stream: %v", err)
	}
}
