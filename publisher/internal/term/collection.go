package term

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/backoff"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

const (
	// absencePoll is how often a term looks for a collection that does not exist, and the
	// pause between attempts of the requests in this file.
	absencePoll = time.Second
	// absenceReport is how often the term logs that the collection does not exist.
	absenceReport = time.Minute
)

// resume returns where the term starts: at the checkpoint's position or, if its collection
// is not known, with a scan of the present collection.
//
// The position may belong to a collection that has lost the name since. The change stream
// still has what was inserted into that collection, and ends where the collection ended. So
// the term follows the stream from the position; see [term.succeed].
func (t *term) resume(ctx context.Context, from checkpoint.Position) (checkpoint.Position, error) {
	t.pump.at = from
	id, err := t.found(ctx)
	switch {
	case err != nil:
		return from, err
	case from.CollectionUUID == "" && (id.UUID != "" || !id.Exists):
		return t.begin(ctx, scanCreated)
	}
	t.pump.collectionUUID = from.CollectionUUID
	if from.CollectionUUID != id.UUID {
		t.logger.Warn().Str("recorded", from.CollectionUUID).Str("found", id.UUID).
			Msg("events collection replaced since the checkpoint; publishing what the change stream has of the former collection first")
		if from.Scan.Active() {
			return t.otherScan(ctx, from)
		}
	}
	return from, nil
}

// otherScan returns where a term continues whose position is in the scan of a collection that
// no longer has the name. Without an end in the change stream, the server has moved the
// collection, as by resharding, and the scan starts over.
func (t *term) otherScan(ctx context.Context, at checkpoint.Position) (checkpoint.Position, error) {
	now, err := t.note(ctx)
	if err != nil {
		return at, err
	}
	ended, err := t.ends(ctx, StreamPosition(at), now)
	switch {
	case err != nil:
		return at, err
	case ended:
		return t.abandon(at), nil
	}
	return t.begin(ctx, scanReplaced)
}

// abandon ends the scan of a collection that no longer has the name. It returns the position
// of the change stream at which everything continues that the stream has.
func (t *term) abandon(at checkpoint.Position) checkpoint.Position {
	s := at.Scan
	t.logger.Error().Stringer("aggregateId", s.AggregateID).Int64("eventId", s.EventID).Time("since", time.Unix(int64(s.OperationTime.T), 0)).
		Msg("events collection replaced before its scan ended: of the former collection's events that are after this one in its index and older than this time, only those are published that the present collection has; publish the former collection by a publisher with another PENSTOCK_EVENTS_COLLECTION and PENSTOCK_STREAM")
	from := streamAfter(s)
	t.pump.mark(from)
	return from
}

// succeed continues after the end of the collection that the term has read. If the
// collection that took the name has ended, too, the change stream has all that is left of it.
// Otherwise that collection is scanned. The stream that follows the scan starts at the end of
// the former collection: should the name change hands again before the scan has ended, the
// stream has what the scan has not read.
func (t *term) succeed(ctx context.Context, end *watch.ReplacedError) (checkpoint.Position, error) {
	if at := t.pump.at; at.Scan.Active() {
		return t.abandon(at), nil
	}
	from, err := t.newScan(ctx)
	if err != nil {
		return from, err
	}
	again, err := t.ends(ctx, end.After, from.Scan.OperationTime)
	switch {
	case err != nil:
		return from, err
	case again:
		t.logger.Warn().Msg("events collection was replaced more than once; publishing what was inserted in between")
		return checkpoint.Position{Token: end.After.Token, ClusterTime: end.After.Time}, nil
	}
	t.logger.Warn().Msg("events collection was dropped, renamed or replaced; scanning the collection that now has its name")
	from.Scan.Lap = &checkpoint.Lap{Token: end.After.Token}
	return t.start(from, scanReplaced), nil
}

// ends reports whether a collection with the name ended after the position and before the
// time. It returns false if the oplog no longer has the position.
func (t *term) ends(ctx context.Context, after watch.Position, until bson.Timestamp) (bool, error) {
	options := t.watching
	options.Logger, options.Metrics = t.logger, nil
	err := watch.New(t.options.Events, options).Run(ctx, after, func(_ context.Context, batch watch.Batch) error {
		at := watch.TimeOf(watch.Position{Token: batch.Token})
		idle := len(batch.Inserts) == 0 && (at.IsZero() || at.Unix() >= int64(until.T))
		if idle || !batch.Time.Before(until) {
			return errCaughtUp
		}
		return nil
	})
	switch {
	case errors.Is(err, watch.ErrInvalidated):
		return true, nil
	case errors.Is(err, errCaughtUp), errors.Is(err, watch.ErrHistoryLost):
		return false, nil
	}
	return false, err
}

// begin starts a scan of the collection that now has the name of the event store. If there
// is none, begin waits for it.
func (t *term) begin(ctx context.Context, reason string) (checkpoint.Position, error) {
	from, err := t.newScan(ctx)
	if err != nil {
		return from, err
	}
	return t.start(from, reason), nil
}

// start starts the scan at that position.
func (t *term) start(from checkpoint.Position, reason string) checkpoint.Position {
	if reason == scanHistoryLost && from.CollectionUUID != t.pump.collectionUUID {
		t.logger.Error().Msg("the collection that the oplog lost is no longer the events collection: of its events after the checkpoint, only those are published that the present collection has")
	}
	t.scans.WithLabelValues(reason).Inc()
	t.pump.collectionUUID = from.CollectionUUID
	t.pump.mark(from)
	return from
}

// newScan returns the position at which a scan begins. It notes the operation time before
// it identifies the collection. If another collection takes the name later, the stream that
// starts after that time shows the change.
func (t *term) newScan(ctx context.Context) (checkpoint.Position, error) {
	for {
		noted, err := t.note(ctx)
		if err != nil {
			return checkpoint.Position{}, err
		}
		id, err := t.found(ctx)
		if err != nil {
			return checkpoint.Position{}, err
		}
		if !id.Exists {
			if err := t.awaitCollection(ctx); err != nil {
				return checkpoint.Position{}, err
			}
			continue
		}
		return checkpoint.Position{Scan: checkpoint.Scan{OperationTime: noted}, CollectionUUID: id.UUID}, nil
	}
}

// note returns the present operation time of the event store, and retries after transient
// errors. A scan calls it after each stretch, so an election must not end the term.
func (t *term) note(ctx context.Context) (bson.Timestamp, error) {
	for {
		now, err := t.operationTime(ctx)
		switch {
		case err == nil:
			return now, nil
		case ctx.Err() != nil:
			return now, context.Cause(ctx)
		case !mongox.Transient(err):
			return now, fmt.Errorf("note the operation time: %w", err)
		}
		t.logger.Warn().Err(err).Msg("operation time of the event store not read; retrying")
		t.beat()
		if err := backoff.Wait(ctx, absencePoll); err != nil {
			return now, err
		}
	}
}

// operationTime asks once for the present operation time of the event store.
func (t *term) operationTime(ctx context.Context) (bson.Timestamp, error) {
	asking, cancel := mongox.Timeout(ctx, askTimeout)
	defer cancel()
	now, err := t.options.History.OperationTime(asking)
	return now, mongox.Explain(asking, err)
}

// found identifies the collection, and retries after transient errors.
func (t *term) found(ctx context.Context) (mongox.CollectionID, error) {
	for {
		id, err := t.identify(ctx)
		switch {
		case err == nil || errors.Is(err, ErrSetup):
			return id, err
		case ctx.Err() != nil:
			return id, context.Cause(ctx)
		}
		t.logger.Warn().Err(err).Msg("events collection not identified; retrying")
		t.beat()
		if err := backoff.Wait(ctx, absencePoll); err != nil {
			return id, err
		}
	}
}

// awaitCollection waits until the collection exists.
func (t *term) awaitCollection(ctx context.Context) error {
	t.missing.Set(1)
	defer t.missing.Set(0)
	var reported time.Time
	for {
		id, err := t.found(ctx)
		if err != nil || id.Exists {
			return err
		}
		if time.Since(reported) >= absenceReport {
			t.logger.Warn().Str("database", t.identity.Database).Str("collection", t.identity.Collection).
				Msg("events collection does not exist; waiting for it. Create it with its index, or correct PENSTOCK_EVENTS_DATABASE and PENSTOCK_EVENTS_COLLECTION")
			reported = time.Now()
		}
		t.beat()
		if err := backoff.Wait(ctx, absencePoll); err != nil {
			return err
		}
	}
}

// beat sends a heartbeat while the term waits and reads nothing.
func (t *term) beat() {
	if t.watching.Beat != nil {
		t.watching.Beat()
	}
}
