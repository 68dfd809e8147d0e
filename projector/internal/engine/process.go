package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

const (
	// maxStale bounds how often in a row one call folds a unit again because another writer
	// was faster. Two are enough unless another process works on the same session.
	maxStale = 3
	// maxUnknown bounds the writes with an unknown outcome after which one call loads a
	// unit again. Mostly the write has happened, and only its reply was lost.
	maxUnknown = 1
)

// run processes every unit as far as one attempt allows.
func (b *batch) run(ctx context.Context) error {
	active := b.units
	for len(active) > 0 && ctx.Err() == nil {
		active = b.repair(ctx, b.project(ctx, active))
	}
	if ctx.Err() != nil {
		b.parkHanging(ctx)
		return context.Cause(ctx)
	}
	b.deferRest()
	b.parkRest(ctx, b.units)
	return b.trouble()
}

// project processes units until each is finished, parked, in trouble, or at a gap, and
// returns those with gaps. The targets run concurrently, so a slow or unreadable collection
// does not keep the others from writing. The live generation of a projection and the one that
// is being built are two such targets: an event is settled when both have it.
func (b *batch) project(ctx context.Context, units []*unit) (gapped []*unit) {
	var tracks []*track
	byTarget := make(map[*Target]*track, len(b.targets))
	for _, u := range units {
		t := byTarget[u.target]
		if t == nil {
			t = &track{batch: b, target: u.target}
			byTarget[u.target] = t
			tracks = append(tracks, t)
		}
		t.active = append(t.active, u)
	}
	if len(tracks) == 1 {
		tracks[0].run(ctx)
	} else {
		var work sync.WaitGroup
		for _, t := range tracks {
			work.Go(func() { t.run(ctx) })
		}
		work.Wait()
	}
	var failing []*unit
	for _, t := range tracks {
		gapped, failing = append(gapped, t.gapped...), append(failing, t.failing...)
	}
	b.park(ctx, failing)
	return gapped
}

// load returns the states of units, to be released; none if the whole call failed, which
// leaves the units in trouble.
func (b *batch) load(ctx context.Context, units []*unit) []model.State {
	attempt, cancel := b.oneAttempt(ctx)
	defer cancel()
	loaded, err := b.store.Load(attempt, keys(units))
	if err != nil {
		b.fail(units, fmt.Errorf("load read models: %w", err))
		return nil
	}
	return loaded
}

// attemptTime bounds one request to the store or the event store.
const attemptTime = 10 * time.Second

// oneAttempt bounds one request, without a deadline: see [mongox.Timeout].
func (b *batch) oneAttempt(ctx context.Context) (context.Context, context.CancelFunc) {
	return mongox.Timeout(ctx, attemptTime)
}

// fail marks units as in trouble.
func (b *batch) fail(units []*unit, err error) {
	for _, u := range units {
		u.trouble = err
	}
}

// trouble returns the reasons why units are to be retried: each reason once, and only some
// of them.
func (b *batch) trouble() error {
	const maxErrors = 3
	var errs []error
	seen := make(map[string]bool)
	for _, u := range b.units {
		if u.trouble == nil || seen[u.trouble.Error()] || len(errs) == maxErrors {
			continue
		}
		seen[u.trouble.Error()] = true
		errs = append(errs, u.trouble)
	}
	return errors.Join(errs...)
}

func keys(units []*unit) []model.Unit {
	keys := make([]model.Unit, len(units))
	for i, u := range units {
		keys[i] = u.Unit
	}
	return keys
}

// write writes the folds of units and returns the results; none if the whole call failed,
// which leaves the units in trouble.
func (b *batch) write(ctx context.Context, units []*unit) []model.Written {
	if len(units) == 0 {
		return nil
	}
	writes := make([]model.Write, len(units))
	for i, u := range units {
		writes[i] = model.Write{
			Unit: u.Unit, Kind: u.fold.Kind,
			From: u.watermark, To: u.run[u.fold.Folded-1].EventID, UpdatedAt: u.updatedAt, Exact: u.assumes == assumesKept, Foreign: u.foreign,
			Document: u.fold.Document, Update: u.fold.Update, View: u.target.Projection.View(), Building: u.target.Building,
		}
	}
	attempt, cancel := b.oneAttempt(ctx)
	defer cancel()
	written, err := b.store.Write(attempt, writes)
	if err != nil {
		b.fail(units, fmt.Errorf("write read models: %w", err))
		return nil
	}
	return written
}

// firstOpen is the first unfinished event, from the event store or the batch.
func (u *unit) firstOpen() *projection.Event {
	if len(u.missing) > 0 {
		return u.missing[0]
	}
	return u.aggregate.events[len(u.settled)]
}

func (u *unit) failure(ev *projection.Event, reason projection.Reason, err error) *projection.Error {
	return &projection.Error{Projection: u.Projection, AggregateID: ev.AggregateID, EventID: ev.EventID, EventType: ev.EventType, Reason: reason, Err: err}
}

// settleUpToWatermark settles the events that the read model already has.
func (u *unit) settleUpToWatermark() {
	for !u.finished() {
		n := u.aggregate.events[len(u.settled)].EventID
		if n > u.watermark {
			break
		}
		s := settledDuplicate
		if n <= u.attempted {
			s = settledApplied
		}
		u.settled = append(u.settled, s)
	}
	for len(u.missing) > 0 && u.missing[0].EventID <= u.watermark {
		u.missing = u.missing[1:]
	}
}

// plan chooses the events to fold next: those that follow the watermark.
func (u *unit) plan() {
	u.run = u.run[:0]
	v := u.watermark
	for _, events := range [2][]*projection.Event{u.missing, u.aggregate.events[len(u.settled):]} {
		for _, ev := range events {
			switch {
			case ev.EventID <= v:
				continue
			case ev.EventID != v+1 && (ev.EventID != u.begin || len(u.run) > 0), u.single && len(u.run) == 1:
				return
			}
			u.run = append(u.run, ev)
			v = ev.EventID
		}
	}
}

// settleRun settles the events that were just written.
func (u *unit) settleRun() {
	done := u.run[:u.fold.Folded]
	u.watermark = done[len(done)-1].EventID
	for i, ev := range done {
		if len(u.missing) > 0 && u.missing[0] == ev {
			u.missing = u.missing[1:]
			u.repaired++
			continue
		}
		// A snapshot may have passed earlier events of the batch.
		for u.aggregate.events[len(u.settled)].EventID < ev.EventID {
			u.settled = append(u.settled, settledDuplicate)
		}
		s := settledIgnored
		if u.fold.Applied[i] {
			s = settledApplied
		}
		u.settled = append(u.settled, s)
	}
	// The same event may be in the batch twice.
	for !u.finished() && u.aggregate.events[len(u.settled)].EventID <= u.watermark {
		u.settled = append(u.settled, settledDuplicate)
	}
	// Release the page from the event store.
	clear(u.run)
	u.run, u.fold, u.document = u.run[:0], projection.Fold{}, nil
	if len(u.missing) == 0 {
		u.missing = nil
	}
}

// settleRest settles all remaining events.
func (u *unit) settleRest(s settlement) {
	for !u.finished() {
		u.settled = append(u.settled, s)
	}
}
