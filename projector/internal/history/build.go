package history

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/job"
)

const (
	// writing is how many groups of a range are folded and written concurrently.
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
	b := &build{Workers: w, target: target, labels: labels{j.Projection, kindBuild}, since: s.Since, progress: p, counts: copyOf(s.counts), at: s.start()}
	return b.run(ctx, s)
}

// build is the work on one span.
type build struct {
	*Workers
	target *engine.Target
	labels labels
	since  bson.Timestamp
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

// group is a batch of histories that are folded and written together.
type group struct {
	batch
	counts counts
	done   chan struct{}
	err    error
}

// run reads, folds and writes, and settles concurrently.
func (b *build) run(ctx context.Context, s span) error {
	parts, working := errgroup.WithContext(ctx)
	work, order := make(chan *group), make(chan *group, writing)
	parts.Go(func() error {
		defer close(work)
		defer close(order)
		return b.read(working, s, work, order)
	})
	for range writing {
		parts.Go(func() error {
			for g := range work {
				g.err = b.insert(working, g)
				close(g.done)
			}
			return nil
		})
	}
	parts.Go(func() error { return b.settle(working, order) })
	err := parts.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	return b.save(ctx)
}

// read reads ahead.
func (b *build) read(ctx context.Context, s span, work, order chan<- *group) error {
	from := &scan{Workers: b.Workers, until: s.Until, since: s.Since}
	defer func() { from.close(ctx) }()
	if err := from.open(ctx, s.start()); err != nil {
		return err
	}
	for last := false; !last; {
		next, err := from.next(ctx)
		if err != nil {
			return err
		}
		last = len(next.histories) == 0
		g := &group{batch: next, done: make(chan struct{}), counts: counts{CountEvents: int64(next.events), CountUnreadable: int64(next.unreadable)}}
		for _, to := range []chan<- *group{order, work} {
			select {
			case to <- g:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// insert folds the histories of a group, and writes them. When it returns without an error, every
// history is durable or parked.
func (b *build) insert(ctx context.Context, g *group) error {
	end, err := b.begin(ctx, g.events)
	if err != nil {
		return err
	}
	defer end()
	var folds []*folded
	size := 0
	for i := range g.histories {
		h := &g.histories[i]
		if h.long {
			end() // Each page of its events has a turn of its own.
		}
		f, err := b.fold(ctx, h, g)
		if err != nil {
			return err
		}
		if f == nil {
			continue
		}
		folds, h.events = append(folds, f), nil
		// A small history can have a large read model.
		if size += f.fold.Size(); size >= b.limits.bytes {
			end()
			if err := b.write(ctx, g, folds); err != nil {
				return err
			}
			folds, size = nil, 0
		}
	}
	end()
	b.metrics.events.WithLabelValues(b.labels.projection, b.labels.kind).Add(float64(g.counts[CountEvents]))
	return b.write(ctx, g, folds)
}

// fold folds a history; nil if it is not one of those to fold.
func (b *build) fold(ctx context.Context, h *history, g *group) (*folded, error) {
	f := newFolded(b.target, &h.aggregate)
	if b.only != nil {
		until, ok := b.only[h.id]
		if !ok {
			return nil, nil
		}
		f.until = until
	}
	g.counts[CountAggregates]++
	if !h.long {
		f.add(h.events)
		return f, nil
	}
	var ended error
	err := b.readFrom(ctx, &h.aggregate, f.unit.FirstEvent(), b.since, func(events []*event.Event) {
		end, err := b.begin(ctx, len(events))
		if ended = cmp.Or(ended, err); ended == nil {
			f.add(events)
			end()
		}
	})
	g.counts[CountEvents] += int64(h.read)
	return f, cmp.Or(err, ended)
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
	if b.only != nil || b.counts[CountFailed] < failedAtLeast || float64(b.counts[CountFailed]) <= b.FailureLimit*float64(b.counts[CountAggregates]) {
		return nil
	}
	return fmt.Errorf("%w: %d of %d aggregates of projection %s are parked; correct the definition (projector parked list shows the errors)",
		ErrMostlyFailing, b.counts[CountFailed], b.counts[CountAggregates], b.labels.projection)
}

func (b *build) save(ctx context.Context) error {
	b.saved = time.Now()
	if b.progress == nil {
		return nil
	}
	return savePosition(ctx, b.progress, position{Events: b.at}, b.counts)
}
