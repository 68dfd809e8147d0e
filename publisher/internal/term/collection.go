package term

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
)

const (
	// absencePoll is how often a term looks for a collection that does not exist, and the
	// pause between attempts of the requests in this file.
	absencePoll = time.Second
	// absenceReport is how often the term logs that the collection does not exist.
	absenceReport = time.Minute
)

// ErrReplaced says that the collection that the checkpoint belongs to has lost the name of the
// event store. Its error says what there was, what there is now, and what to do.
var ErrReplaced = errors.New("events collection was dropped, renamed or replaced")

// resume returns where the term starts: at the checkpoint's position or, if its collection
// is not known, with a scan of the present collection.
//
// The position may belong to a collection that has lost the name since. The change stream
// still has what was inserted into that collection, and ends where the collection ended. So
// the term follows the stream from the position; see [term.finish].
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
		if from.Scan.Active() {
			return from, t.replaced(id)
		}
		t.logger.Warn().Str("recorded", from.CollectionUUID).Str("found", id.UUID).
			Msg("events collection replaced since the checkpoint; publishing what the change stream has of the former collection")
	}
	return from, nil
}

// finish waits until everything that was read of the collection that has ended is on the
// topic or in the quarantine, so that the last save of the term has the last position of that
// collection. It then returns [ErrReplaced]: no change stream has the documents that the
// collection with the name holds now, and only an operator knows whether they are to be
// published.
func (t *term) finish(ctx context.Context) error {
	t.logger.Warn().Msg("events collection was dropped, renamed or replaced; publishing what was read of it")
	for {
		if events, _ := t.dispatcher.Inflight(); events == 0 {
			break
		}
		t.beat()
		if err := poll.Wait(ctx, absencePoll); err != nil {
			return err
		}
	}
	id, err := t.found(ctx)
	if err != nil {
		return err
	}
	return t.replaced(id)
}

// replaced returns [ErrReplaced] for the collection that has the name now.
func (t *term) replaced(now mongox.CollectionID) error {
	name := t.identity.Database + "." + t.identity.Collection
	is := "no collection has its name now"
	switch {
	case now.Exists && now.UUID == t.pump.collectionUUID:
		is = "the same collection has its name again, with what was inserted meanwhile"
	case now.Exists:
		is = "collection " + now.UUID + " has its name now"
	}
	had := "everything that the change stream had of it is published"
	if at := t.pump.at; at.Scan.Active() {
		after := ""
		if !at.Scan.AggregateID.IsZero() {
			after = " that are after " + at.Scan.AggregateID.String() + " in its index"
		}
		had = "its scan had not ended: of the events" + after + ", only those are published that the present collection has; publish the rest by a publisher with another PENSTOCK_EVENTS_COLLECTION and PENSTOCK_STREAM"
	}
	start := ""
	if !t.pump.since.IsZero() {
		start = ", or, without the events of before the stream's start: publisher checkpoint set start --why REASON"
	}
	return fmt.Errorf("%w: the checkpoint belongs to collection %s of %s, and %s; %s. To begin with the collection that has the name now: publisher checkpoint set beginning --why REASON (it publishes all of it)%s, or: publisher checkpoint set now --why REASON",
		ErrReplaced, cmp.Or(t.pump.collectionUUID, "(unknown)"), name, is, had, start)
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
		if err := poll.Wait(ctx, absencePoll); err != nil {
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
		if err := poll.Wait(ctx, absencePoll); err != nil {
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
				Msg("events collection does not exist; waiting for it")
			reported = time.Now()
		}
		t.beat()
		if err := poll.Wait(ctx, absencePoll); err != nil {
			return err
		}
	}
}

// beat sends a heartbeat while the term waits and reads nothing.
func (t *term) beat() { t.watching.Beat() }
