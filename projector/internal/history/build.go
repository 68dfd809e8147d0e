package history

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/job"
)

const (
	// pagesAhead is how many pages are read ahead of the fold.
	pagesAhead = 3
	// writing is how many groups of a range are written concurrently.
	writing = 2
	// failedAtLeast is how many aggregates must fail before their share counts.
	failedAtLeast = 100
)

// build folds every aggregate of the span into the job's generation, from its position
// on. It returns nil when all of them are durable or parked.
func (w *Workers) build(ctx context.Context, j job.Job, s span, p job.Progress) error {
	target, err := w.target(j)
	if err != nil {
		return err
	}
	b := &build{Workers: w, target: target, labels: labels{j.Projection, kindBuild}, progress: p, counts: countsOf(s.counts), at: s.start()}
	return b.run(ctx, s)
}

// build is the work on one span.
type build struct {
	*Workers
	target *engine.Target
	labels labels
	// progress may be nil: then nothing is saved.
	progress job.Progress
	// only are the aggregates to fold, each with the last event to fold: a sweep must not fold
	// later ones into the live generation, which the generation being built does not have.
	// nil means all.
	only map[string]int64

	// counts and at belong to settle: the counts and the position of what is durable.
	counts counts
	at     eventstore.Position
	saved  time.Time
}

// run reads, folds, writes and settles concurrently.
func (b *build) run(ctx context.Context, s span) error {
	cursor, err := mongox.Within(ctx, readTimeout, func(ctx context.Context) (eventstore.Cursor, error) {
		return b.Events.Open(ctx, s.start(), s.until, s.since)
	})
	if err != nil {
		return err
	}
	if cursor != nil {
		defer b.closeCursor(ctx, cursor)
		parts, working := errgroup.WithContext(ctx)
		pages := make(chan []bson.Raw, pagesAhead)
		work := make(chan *group)
		order := make(chan *group, writing)
		parts.Go(func() error {
			defer close(pages)
			return b.read(working, cursor, pages)
		})
		parts.Go(func() error {
			defer close(work)
			defer close(order)
			return b.fold(working, pages, work, order)
		})
		for range writing {
			parts.Go(func() error {
				for g := range work {
					g.err = b.write(working, g)
					close(g.done)
				}
				return nil
			})
		}
		parts.Go(func() error { return b.settle(working, order) })
		err = parts.Wait()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
	return b.save(ctx)
}

// read reads ahead.
func (b *build) read(ctx context.Context, cursor eventstore.Cursor, pages chan<- []bson.Raw) error {
	for {
		page, err := mongox.Within(ctx, readTimeout, cursor.Next)
		if errors.Is(err, eventstore.ErrEnd) {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case pages <- page:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// fold makes histories from pages, and groups from histories.
func (b *build) fold(ctx context.Context, pages <-chan []bson.Raw, work, order chan<- *group) error {
	g := &group{done: make(chan struct{})}
	var h *folded
	send := func() error {
		for _, to := range []chan<- *group{order, work} {
			select {
			case to <- g:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		g = &group{done: make(chan struct{})}
		return nil
	}
	finish := func() error {
		if h == nil {
			return nil
		}
		h.foldWaiting()
		g.add(h)
		h = nil
		if b.full(g) {
			return send()
		}
		return nil
	}
	for page := range pages {
		end, err := b.begin(ctx, len(page))
		if err != nil {
			return err
		}
		events := b.readPage(page, g)
		for i := range events {
			ev := &events[i]
			if h != nil && h.unit.AggregateID != ev.AggregateID {
				if err := finish(); err != nil {
					end()
					return err
				}
			}
			g.counts.events++
			if b.only != nil {
				if last, wanted := b.only[ev.AggregateID]; !wanted || ev.EventID > last {
					continue
				}
			}
			if h == nil {
				h = newFolded(b.target, ev)
			}
			h.add(ev, b.target)
		}
		if h != nil {
			h.foldWaiting()
		}
		end()
		b.metrics.events.WithLabelValues(b.labels.projection, b.labels.kind).Add(float64(len(page)))
	}
	if err := finish(); err != nil || ctx.Err() != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	if len(g.histories) > 0 || g.counts != (counts{}) {
		return send()
	}
	return nil
}

// readPage reads the events of a page. It counts and skips those that break the contract.
func (b *build) readPage(page []bson.Raw, g *group) []event.Event {
	events := make([]event.Event, 0, len(page))
	for _, document := range page {
		ev, err := b.Events.Read(document)
		if err != nil {
			g.counts.unreadable++
			b.Logger.Debug().Err(err).Str("aggregateId", ev.AggregateID).Int64("eventId", ev.EventID).Msg("event breaks the contract; left out of the fold")
			continue
		}
		events = append(events, ev)
	}
	return events
}

// settle waits for groups in the order in which they were read, and saves their positions.
func (b *build) settle(ctx context.Context, order <-chan *group) error {
	for g := range order {
		select {
		case <-g.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if g.err != nil {
			return g.err
		}
		b.counts.add(g.counts)
		b.metrics.count(b.labels, g.counts)
		if !g.end.IsZero() {
			b.at = g.end
		}
		if err := b.checkFailures(); err != nil {
			return err
		}
		if time.Since(b.saved) >= b.SaveEvery {
			if err := b.save(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkFailures fails if too many aggregates of the range were parked. A sweep goes on: it
// must heal the others, and the definition is live already.
func (b *build) checkFailures() error {
	if b.only != nil || b.counts.failed < failedAtLeast || float64(b.counts.failed) <= b.FailureLimit*float64(b.counts.aggregates) {
		return nil
	}
	return fmt.Errorf("%w: %d of %d aggregates of projection %s are parked; correct the definition (projector parked list shows the errors)",
		ErrMostlyFailing, b.counts.failed, b.counts.aggregates, b.labels.projection)
}

func (b *build) save(ctx context.Context) error {
	b.saved = time.Now()
	if b.progress == nil {
		return nil
	}
	return savePosition(ctx, b.progress, b.at, &b.counts)
}
