package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/backoff"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
)

const (
	// absencePoll is how often a term looks for a collection that does not exist, and the
	// pause between attempts of the requests in this file.
	absencePoll = time.Second
	// absenceReport is how often the term logs that the collection does not exist.
	absenceReport = time.Minute
)

// newMissing makes the metric of a missing events collection.
func newMissing(registerer prometheus.Registerer) prometheus.Gauge {
	missing := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "penstock_publisher_source_missing",
		Help: "1 while the leader waits for the events collection, which does not exist; otherwise 0.",
	})
	registerer.MustRegister(missing)
	return missing
}

// resume returns where the term starts: at the checkpoint's position if that belongs to
// the present collection, otherwise with a scan of the present collection.
func (t *term) resume(ctx context.Context, from checkpoint.Position) (checkpoint.Position, error) {
	t.pump.at = from
	id, err := t.found(ctx)
	switch {
	case err != nil:
		return from, err
	case !id.Exists, from.CollectionUUID == "" && id.UUID != "":
		return t.begin(ctx, scanCreated)
	case from.CollectionUUID != id.UUID:
		t.logger.Warn().Str("recorded", from.CollectionUUID).Str("found", id.UUID).
			Msg("events collection replaced since the checkpoint; scanning it from the beginning")
		return t.begin(ctx, scanReplaced)
	}
	t.pump.collectionUUID = id.UUID
	return from, nil
}

// begin starts a scan of the collection that now has the name of the event store. If
// there is none, begin waits for it.
func (t *term) begin(ctx context.Context, reason string) (checkpoint.Position, error) {
	from, err := t.newScan(ctx, reason)
	if err == nil {
		t.pump.mark(from)
	}
	return from, err
}

// newScan returns the position at which a scan begins. It notes the operation time before
// it identifies the collection. If another collection takes the name later, the stream that
// starts after that time shows the change.
func (t *term) newScan(ctx context.Context, reason string) (checkpoint.Position, error) {
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
		t.scans.WithLabelValues(reason).Inc()
		t.pump.collectionUUID = id.UUID
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
	asking, cancel := mongox.Timeout(ctx, claimTimeout)
	defer cancel()
	now, err := t.history.OperationTime(asking)
	return now, mongox.Explain(asking, err)
}

// found identifies the collection, and retries after transient errors.
func (t *term) found(ctx context.Context) (mongox.CollectionID, error) {
	for {
		id, err := t.identify(ctx)
		switch {
		case err == nil || errors.Is(err, errSetup):
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
