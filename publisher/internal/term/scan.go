package term

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

// scanStretch is how long a scan reads before it catches up with the change stream. The
// oplog must reach back only this long.
const scanStretch = time.Minute

var (
	errStretch  = errors.New("stretch of the scan is over")
	errCaughtUp = errors.New("stream has caught up")
)

// scan publishes the events in the event store: one lap, in stretches. It returns the
// position at which the stream continues, or another scan.
//
//	                From ──────▶ P ──────▶ end     then begin ──────▶ P ──────▶ From
//	scanned so far  [From … P]                     [From … end] and [begin … P]
//
// After each stretch, it follows the change stream to its present end and publishes the
// events of the part that is scanned. The scan itself finds the other events later. So the
// stream's start moves along with the scan, and the oplog need not reach back to the scan's
// beginning.
func (t *term) scan(ctx context.Context, s checkpoint.Scan) (checkpoint.Position, error) {
	defer t.losses.Set(0)
	t.losses.Set(float64(lapOf(s).Losses))
	t.pump.moved = false
	t.pump.at = checkpoint.Position{Scan: s, CollectionUUID: t.pump.collectionUUID}
	resumed := s.AggregateID.Type != 0
	t.logger.Info().Bool("resumed", resumed).Int("losses", lapOf(s).Losses).Msg("scanning the event store")
	if resumed {
		// If the oplog has lost the stream, find out before scanning more: this position
		// then begins another lap.
		if err := t.catchUp(ctx); err != nil {
			return t.pump.at, err
		}
	}
	for {
		err := t.readStretch(ctx)
		if errors.Is(err, errStretch) {
			err = t.catchUp(ctx)
		} else if err == nil {
			id, err := t.found(ctx)
			switch {
			case err != nil:
				return t.pump.at, err
			case id.UUID != t.pump.collectionUUID:
				// A collection that has lost its name reads as empty.
				return t.pump.at, t.replaced(id)
			}
			s := t.pump.at.Scan
			if lap := lapOf(s); lap.FromAggregateID.Type != 0 && !lap.Wrapped {
				lap.Wrapped = true
				t.pump.mark(checkpoint.Position{Scan: checkpoint.Scan{OperationTime: s.OperationTime, Lap: &lap}})
				continue
			}
			t.scanned = true
			t.logger.Info().Int("olderThanStart", t.pump.older).Msg("event store scanned; following its change stream")
			return streamAfter(s), nil
		}
		if err != nil {
			return t.pump.at, err
		}
	}
}

// lapOf returns a copy of the scan's lap.
func lapOf(s checkpoint.Scan) checkpoint.Lap {
	if s.Lap == nil {
		return checkpoint.Lap{}
	}
	return *s.Lap
}

// streamAfter returns where the stream starts when the scan has ended.
func streamAfter(s checkpoint.Scan) checkpoint.Position {
	if lap := lapOf(s); lap.Token != nil {
		// The operation time can be later than the token, and the checkpoint would go back with
		// the next change.
		at := watch.TokenTime(lap.Token)
		if at.IsZero() {
			at = s.OperationTime
		}
		return checkpoint.Position{Token: lap.Token, ClusterTime: at}
	}
	return checkpoint.Position{ClusterTime: checkpoint.After(s.OperationTime)}
}

// readStretch continues the scan at the pump's position. It returns nil at the end of the
// store or of the lap, and errStretch if there is more.
func (t *term) readStretch(ctx context.Context) error {
	s := t.pump.at.Scan
	lap := lapOf(s)
	from := placeOf(s.AggregateID, s.EventID)
	var until eventstore.Position
	if lap.Wrapped {
		until = placeOf(lap.FromAggregateID, lap.FromEventID)
	}
	options := t.scanning
	options.Logger = t.logger
	over := time.Now().Add(cmp.Or(t.stretch, scanStretch))
	return NewScanner(t.options.History, options).Run(ctx, from, until, s.OperationTime, func(ctx context.Context, documents []bson.Raw) error {
		t.access.Works()
		if err := t.pump.scanned(ctx, documents); err != nil {
			return err
		}
		at := t.pump.at.Scan
		// A stretch must make progress, however slow it is.
		moved := at.EventID != s.EventID || !at.AggregateID.Equal(s.AggregateID)
		if moved && time.Now().After(over) && t.comparable(at) {
			return errStretch
		}
		return nil
	})
}

// comparable reports whether the order of events and the scan's position can be computed.
func (t *term) comparable(s checkpoint.Scan) bool {
	at := placeOf(s.AggregateID, s.EventID)
	_, known := t.options.History.Compare(at, at)
	return known
}

// catchUp follows the change stream from its start to its present end, publishes the events
// of the scanned part, and moves the start to that end.
func (t *term) catchUp(ctx context.Context) error {
	if !t.comparable(t.pump.at.Scan) {
		return nil
	}
	goal, err := t.note(ctx)
	if err != nil {
		return err
	}
	options := t.watching
	options.Logger = t.logger
	err = watch.New(t.options.Events, options).Run(ctx, StreamPosition(t.pump.at), func(ctx context.Context, batch watch.Batch) error {
		t.access.Works()
		s := t.pump.at.Scan
		left, err := t.pump.behind(ctx, batch, func(ev *event.Event) bool { return t.covers(s, ev) })
		if err != nil {
			return err
		}
		if batch.Token == nil {
			return nil
		}
		lap := lapOf(s)
		lap.Token = batch.Token
		s.Lap = &lap
		// The scan must still read the events that this step has left to it.
		s.OperationTime = later(s.OperationTime, left)
		end := len(batch.Inserts) == 0 || !batch.Time.Before(goal)
		if end {
			s.OperationTime = later(s.OperationTime, goal)
		}
		t.pump.mark(checkpoint.Position{Scan: s})
		if end {
			return errCaughtUp
		}
		return nil
	})
	if errors.Is(err, errCaughtUp) {
		return nil
	}
	return err
}

// covers reports whether the event belongs to the part that is scanned. An event in an
// unknown place counts as scanned: publishing it twice is better than losing it.
func (t *term) covers(s checkpoint.Scan, ev *event.Event) bool {
	lap := lapOf(s)
	place := placeOf(ev.RawAggregateID, ev.EventID)
	// notAfter and notBefore return true if the order is unknown.
	notAfter := func(end eventstore.Position) bool {
		order, known := t.options.History.Compare(place, end)
		return !known || order <= 0
	}
	notBefore := func(begin eventstore.Position) bool {
		order, known := t.options.History.Compare(place, begin)
		return !known || order >= 0
	}
	scanned := s.AggregateID.Type != 0 && notAfter(placeOf(s.AggregateID, s.EventID))
	if lap.FromAggregateID.Type == 0 {
		return scanned
	}
	began := notBefore(placeOf(lap.FromAggregateID, lap.FromEventID))
	if lap.Wrapped {
		return scanned || began
	}
	return scanned && began
}

// placeOf returns an event's place in the scan; the zero place is before all events.
func placeOf(aggregateID bson.RawValue, eventID int64) eventstore.Position {
	if aggregateID.Type == 0 {
		return eventstore.Position{}
	}
	return eventstore.At(aggregateID, eventID)
}

func later(a, b bson.Timestamp) bson.Timestamp {
	if a.Before(b) {
		return b
	}
	return a
}
