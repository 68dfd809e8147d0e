package history

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/job"
)

const (
	// maxLate bounds the late aggregates that wait for their next check.
	maxLate = 10_000
	// firstLook is the time until a late aggregate is checked again for the first time.
	// Most have caught up by then.
	firstLook = time.Second
)

// pass is the work on one range.
type pass struct {
	*Workers
	job      job.Job
	target   *engine.Target
	params   Params
	progress job.Progress
	// counts are the sums over the settled parts, and position is the end of the last
	// one.
	counts   map[string]int64
	position position
	// parts are the parts that are not settled yet, in order: the first of them still has
	// late aggregates.
	parts []*part
	late  []*lateLook
	saved time.Time
	// readSinceWait is the number of events that were read since waitForRate last waited.
	readSinceWait int
	// end ends the work that the last wait allowed.
	end func()
}

// part is a part of a range. Its counts and its end are saved together.
type part struct {
	end    position
	counts map[string]int64
	// open is the number of its aggregates that are to be checked again.
	open int
}

// countUnreadable counts documents that break the contract.
func (p *part) countUnreadable(n int) {
	if n > 0 {
		p.counts[CountUnreadable] += int64(n)
	}
}

// lateLook is an aggregate that is to be checked again.
type lateLook struct {
	aggregate aggregate
	part      *part
	// head is the last event at the time when the aggregate was first found late. Once
	// the watermark has reached head, the aggregate has caught up within the grace
	// period, even if newer events have made it late again.
	head      int64
	next, end time.Time
}

func newPass(w *Workers, j job.Job, t *engine.Target, params Params, at position, counts map[string]int64, progress job.Progress) *pass {
	p := &pass{Workers: w, job: j, target: t, params: params, progress: progress, position: at, counts: make(map[string]int64), saved: w.now(), end: func() {}}
	if at.After != "" || !at.Events.IsZero() {
		// Without a position, the range begins anew, although it may have been saved at its end.
		maps.Copy(p.counts, counts)
	}
	delete(p.counts, CountLate)
	return p
}

// countRead counts the events of an aggregate that were read alone.
func (p *pass) countRead(a *aggregate) {
	p.readSinceWait += a.read
	a.read = 0
}

// waitForRate waits as long as the rate limit and live events demand for the events that
// were read. It is not called between reading an aggregate and writing it: during a wait, live writers would
// move its watermark, and the write would match nothing.
func (p *pass) waitForRate(ctx context.Context) error {
	n := p.readSinceWait
	p.readSinceWait = 0
	if n == 0 {
		return nil
	}
	p.end()
	end, err := p.begin(ctx, n)
	if err != nil {
		end = func() {}
	}
	p.end = end
	return err
}

// newPart appends the next part.
func (p *pass) newPart() *part {
	part := &part{counts: make(map[string]int64)}
	p.parts = append(p.parts, part)
	return part
}

// advance checks the late aggregates that are due, and saves the settled parts.
func (p *pass) advance(ctx context.Context) error {
	err := p.lookAgain(ctx)
	if err == nil {
		err = p.waitForRate(ctx)
	}
	if err != nil {
		return err
	}
	for len(p.late) > maxLate {
		if err := p.waitForLook(ctx); err != nil {
			return err
		}
	}
	return p.save(ctx, false)
}

// finish waits until every part is settled, and saves the result. Before each wait it
// saves what it waits for.
func (p *pass) finish(ctx context.Context) error {
	for len(p.late) > 0 {
		p.counts[CountLate] = int64(len(p.late))
		if err := p.save(ctx, true); err != nil {
			return err
		}
		if err := p.waitForLook(ctx); err != nil {
			return err
		}
	}
	delete(p.counts, CountLate)
	if err := p.waitForRate(ctx); err != nil {
		return err
	}
	return p.save(ctx, true)
}

// save stores the settled parts if the interval has passed, or if now is set.
func (p *pass) save(ctx context.Context, now bool) error {
	for len(p.parts) > 0 && p.parts[0].open == 0 {
		for name, n := range p.parts[0].counts {
			p.counts[name] += n
		}
		p.position = p.parts[0].end
		p.parts = p.parts[1:]
	}
	if !now && p.now().Sub(p.saved) < p.SaveEvery {
		return nil
	}
	p.saved = p.now()
	return savePosition(ctx, p.progress, p.position, maps.Clone(p.counts))
}

// later schedules another check of an aggregate.
func (p *pass) later(a aggregate, head int64, part *part) {
	now := p.now()
	end := now.Add(p.params.grace())
	next := now.Add(firstLook)
	if next.After(end) {
		next = end
	}
	part.open++
	p.late = append(p.late, &lateLook{aggregate: a, part: part, head: head, next: next, end: end})
}

// waitForLook waits until a late aggregate is due, and checks those that are.
func (p *pass) waitForLook(ctx context.Context) error {
	next := p.late[0].next
	for _, l := range p.late {
		if l.next.Before(next) {
			next = l.next
		}
	}
	p.end()
	// The holder of the range's lease renews it during the wait.
	if err := p.wait(ctx, max(0, next.Sub(p.now()))); err != nil {
		return err
	}
	return p.lookAgain(ctx)
}

// lookAgain checks the late aggregates that are due.
func (p *pass) lookAgain(ctx context.Context) error {
	now := p.now()
	left := p.late[:0]
	for i, l := range p.late {
		if l.next.After(now) {
			left = append(left, l)
			continue
		}
		err := p.waitForRate(ctx)
		var finding, late *Finding
		if err == nil {
			finding, late, err = p.look(ctx, p.target, &l.aggregate)
			p.countRead(&l.aggregate)
		}
		if err != nil {
			p.late = append(left, p.late[i:]...)
			return err
		}
		if late != nil && (late.Kind == Behind || late.Kind == Missing) && late.Watermark >= l.head {
			late = nil
		}
		if finding == nil && late != nil && late.Kind != Parked && now.Before(l.end) {
			l.next = l.end
			left = append(left, l)
			continue
		}
		l.part.open--
		if finding == nil {
			finding = late
		}
		if finding == nil {
			continue
		}
		if err := p.settle(ctx, l.aggregate, finding, l.part); err != nil {
			p.late = append(left, p.late[i+1:]...)
			l.part.open++ // The part must not count without the finding.
			return err
		}
	}
	clear(p.late[len(left):])
	p.late = left
	return nil
}

// settle counts and stores a finding, and repairs the read model if the job asks for it.
func (p *pass) settle(ctx context.Context, a aggregate, f *Finding, part *part) error {
	f.ID = p.job.ID + "/" + f.AggregateID
	return p.record(ctx, f, part, func() error {
		defer p.countRead(&a)
		switch {
		case f.Kind == Extra:
			return errExtra(f)
		case f.erased && p.params.Aggregate == "" && !p.target.Building:
			return errErased(a.id)
		}
		if err := p.succeeded(ctx); err != nil {
			return err
		}
		// Another generation can have been promoted since the range began. A document that it
		// lacks would be created from the old definition: no guard prevents that.
		if _, err := p.Target(ctx, p.job.Projection, p.job.Generation); err != nil {
			return err
		}
		return p.repair(ctx, p.target, &a)
	})
}

// errSucceeded refuses a repair of a generation that is about to be replaced.
var errSucceeded = errors.New("not repaired, because a new generation of the projection is caught up and will replace it: repeat the repair after its promotion, or cancel it with projector projections cancel")

// succeeded fails if a generation that is being built can replace the live one at any time. It
// may lack an event that the topic has not delivered, so readers would see the repair disappear
// at the promotion.
func (p *pass) succeeded(ctx context.Context) error {
	if p.Succeeded == nil {
		return nil
	}
	found, err := p.Succeeded(ctx, p.job.Projection, p.job.Generation)
	if err == nil && found {
		return errSucceeded
	}
	return err
}

// record counts and stores a finding, after a repair if the job asks for it.
func (p *pass) record(ctx context.Context, f *Finding, part *part, repair func() error) error {
	if f.Kind != Parked && p.Current != nil {
		// If another generation has been promoted since the range began, the collection and the
		// markers are those of that generation, so the finding is not true.
		if err := p.Current(ctx, p.job.Projection, p.job.Generation); err != nil {
			return err
		}
	}
	f.Job, f.At = p.job.ID, p.now().UTC()
	defer f.count(part.counts)
	if p.params.Repair && f.Kind != Parked {
		err := repair()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errSucceeded) && p.job.Kind == job.Reconcile:
			return errReplaceable
		case err == nil:
			f.Repaired = true
			if p.job.Kind == job.Reconcile {
				p.metrics.reconciled.WithLabelValues(p.job.Projection).Inc()
			}
		default:
			f.RepairError = WithoutValues(err)
		}
	}
	if f.Kind != Parked {
		p.Logger.Warn().Str("job", f.Job).Str("projection", f.Projection).Int64("generation", f.Generation).
			Str("aggregateId", f.AggregateID).Str("document", f.Document).Str("kind", string(f.Kind)).Int64("watermark", f.Watermark).Int64("head", f.Head).
			Str("detail", f.Detail).Int("differences", len(f.Differences)+f.More).Bool("repaired", f.Repaired).Str("repairError", f.RepairError).
			Msg("read model is wrong")
	}
	return p.Findings.Put(ctx, *f)
}
