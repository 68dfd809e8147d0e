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

// scan publishes the events in the event store, in stretches, and returns the position at
// which the stream continues.
//
// Between two stretches, it follows the change stream to its present end and publishes the
// events of the part that is scanned. The scan itself finds the other events later. So the
// stream's start moves along with the scan, and the oplog need not reach back to the scan's
// beginning.
func (t *term) scan(ctx context.Context, s checkpoint.Scan) (checkpoint.Position, error) {
	t.pump.at = checkpoint.Position{Scan: s, CollectionUUID: t.pump.collectionUUID}
	t.logger.Info().Bool("resumed", s.AggregateID.Type != 0).Msg("scanning the event store")
	for {
		err := t.readStretch(ctx)
		if errors.Is(err, errStretch) {
			if err = t.catchUp(ctx); err == nil {
				continue
			}
		}
		if err != nil {
			return t.pump.at, err
		}
		id, err := t.found(ctx)
		switch {
		case err != nil:
			return t.pump.at, err
		case id.UUID != t.pump.collectionUUID:
			// A collection that has lost its name reads as empty.
			return t.pump.at, t.replaced(id)
		}
		t.logger.Info().Int("olderThanStart", t.pump.older).Msg("event store scanned; following its change stream")
		return streamAfter(t.pump.at.Scan), nil
	}
}

// streamAfter returns where the stream starts when the scan has ended.
func streamAfter(s checkpoint.Scan) checkpoint.Position {
	if s.Token == nil {
		return checkpoint.Position{ClusterTime: checkpoint.After(s.OperationTime)}
	}
	// The operation time can be later than the token, and the checkpoint would go back with
	// the next change.
	at := watch.TokenTime(s.Token)
	if at.IsZero() {
		at = s.OperationTime
	}
	return checkpoint.Position{Token: s.Token, ClusterTime: at}
}

// readStretch continues the scan at the pump's position. It returns nil at the end of the
// store, and errStretch if there is more.
func (t *term) readStretch(ctx context.Context) error {
	s := t.pump.at.Scan
	options := t.scanning
	options.Logger = t.logger
	over := time.Now().Add(cmp.Or(t.stretch, scanStretch))
	return NewScanner(t.options.History, options).Run(ctx, placeOf(s), eventstore.Position{}, s.OperationTime, func(ctx context.Context, documents []bson.Raw) error {
		t.access.Works()
		if err := t.pump.scanned(ctx, documents); err != nil {
			return err
		}
		at := t.pump.at.Scan
		// A stretch must make progress, however slow it is.
		moved := at.EventID != s.EventID || !at.AggregateID.Equal(s.AggregateID)
		_, known := t.options.History.Compare(placeOf(at), placeOf(at))
		if moved && known && time.Now().After(over) {
			return errStretch
		}
		return nil
	})
}

// catchUp follows the change stream from its start to its present end, publishes the events
// of the scanned part, and moves the start to that end.
func (t *term) catchUp(ctx context.Context) error {
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
		s.Token = batch.Token
		// The scan must still read the events that this step has left to it.
		s.OperationTime = later(s.OperationTime, left)
		// A batch without a time is of an idle stream. One without inserts can have deletes.
		end := batch.Time.IsZero() || !batch.Time.Before(goal)
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
	order, known := t.options.History.Compare(eventstore.At(ev.RawAggregateID, ev.EventID), placeOf(s))
	return !known || order <= 0
}

// placeOf returns the position of the last event of a scan; zero if it has read none.
func placeOf(s checkpoint.Scan) eventstore.Position {
	if s.AggregateID.Type == 0 {
		return eventstore.Position{}
	}
	return eventstore.At(s.AggregateID, s.EventID)
}

func later(a, b bson.Timestamp) bson.Timestamp {
	if a.Before(b) {
		return b
	}
	return a
}
