package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

const (
	// maxCandidates bounds the aggregates that wait for the end of the grace, maxPages
	// the pages of heads that wait for them.
	maxCandidates = 10_000
	maxPages      = 1024
)

// errReplaceable fails a sweep: nothing is proven of the read models that it has left alone. The
// scheduler begins another one after the build.
var errReplaceable = errors.New("read models may be behind, and are not healed because a generation that is being built can replace them at any time")

// sweep compares the head of every aggregate of the span with its watermark, and folds
// aggregates that are behind. It returns nil when every aggregate has the events that were
// in the store at span.since, or those before the one at which it is parked, and none has a
// document of an older generation.
func (w *Workers) sweep(ctx context.Context, j job.Job, part span, p job.Progress) error {
	target, err := w.target(j)
	if err != nil {
		return err
	}
	params, err := readParams(j)
	if err != nil {
		return err
	}
	s := &sweep{
		Workers: w, job: j, target: target, labels: labels{j.Projection, kindSweep}, grace: params.grace(), since: part.Since,
		progress: p, counts: copyOf(part.counts), at: part.start(),
	}
	return s.run(ctx, part)
}

// sweep is the work on one span.
type sweep struct {
	*Workers
	job      job.Job
	target   *engine.Target
	labels   labels
	grace    time.Duration
	since    bson.Timestamp
	progress job.Progress

	// pages wait for the end of their candidates' grace, in order.
	pages      []*sweptPage
	candidates int

	counts counts
	at     eventstore.Position
	saved  time.Time
}

// sweptPage is a page of heads.
type sweptPage struct {
	end    eventstore.Position
	counts counts
	// behind are the aggregates that were behind, or had a foreign document, when the page
	// was read. They are checked again after the grace.
	behind []*folded
	due    time.Time
}

// run reads heads, and settles each page when its grace is over.
func (s *sweep) run(ctx context.Context, part span) error {
	cursor, err := mongox.Within(ctx, readTimeout, func(ctx context.Context) (*eventstore.HeadCursor, error) {
		return s.Events.Heads(ctx, part.start(), part.Until, part.Since)
	})
	if err != nil {
		return err
	}
	if cursor != nil {
		defer s.closeCursor(ctx, cursor)
		for {
			heads, err := mongox.Within(ctx, readTimeout, cursor.Next)
			if errors.Is(err, eventstore.ErrEnd) {
				break
			}
			if err != nil {
				return err
			}
			if len(heads) == 0 {
				continue
			}
			if err := s.look(ctx, heads); err != nil {
				return err
			}
			if err := s.settle(ctx, false); err != nil {
				return err
			}
		}
	}
	if err := s.settle(ctx, true); err != nil {
		return err
	}
	return s.save(ctx)
}

// look finds the aggregates of a page that are behind or have a foreign document. A foreign
// document counts even if the watermark is at the head, because readers see it.
func (s *sweep) look(ctx context.Context, heads []eventstore.Head) error {
	end, err := s.begin(ctx, len(heads))
	if err != nil {
		return err
	}
	defer end()
	page := &sweptPage{counts: counts{}, due: time.Now().Add(s.grace), end: eventstore.After(heads[len(heads)-1].RawAggregateID)}
	units := make([]model.Unit, len(heads))
	for i := range heads {
		units[i] = s.target.Unit(heads[i].AggregateID)
		page.counts[CountEvents] += heads[i].Events
	}
	page.counts[CountAggregates] = int64(len(heads))
	states, err := s.states(ctx, units)
	if err != nil {
		return err
	}
	for i := range heads {
		if head, state := &heads[i], &states[i]; state.Watermark < head.Last || state.Foreign != nil {
			h := &folded{unit: units[i], raw: head.RawAggregateID, place: i}
			h.noEvents()
			h.watermark, h.foreign, h.first, h.last = state.Watermark, state.Foreign, head.First, head.Last
			page.behind = append(page.behind, h)
		}
	}
	s.metrics.events.WithLabelValues(s.labels.projection, s.labels.kind).Add(float64(page.counts[CountEvents]))
	s.pages = append(s.pages, page)
	s.candidates += len(page.behind)
	return nil
}

// settle folds the candidates of the pages whose grace is over. If too many wait, or if all
// is set, it waits for the end of the grace.
func (s *sweep) settle(ctx context.Context, all bool) error {
	for len(s.pages) > 0 {
		page := s.pages[0]
		if len(page.behind) > 0 {
			if wait := time.Until(page.due); wait > 0 {
				if !all && s.candidates < maxCandidates && len(s.pages) < maxPages {
					return nil
				}
				if err := poll.Wait(ctx, wait); err != nil {
					return err
				}
			}
			if err := s.heal(ctx, page); err != nil {
				return err
			}
		}
		s.pages[0] = nil
		s.pages = s.pages[1:]
		s.candidates -= len(page.behind)
		s.counts.add(page.counts)
		s.metrics.count(s.labels, page.counts)
		if s.job.Kind == job.Reconcile {
			s.metrics.reconciled.WithLabelValues(s.job.Projection).Add(float64(page.counts[CountBehind]))
		}
		s.at = page.end
		if time.Since(s.saved) >= s.SaveEvery {
			if err := s.save(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// heal folds the candidates of a page that are still behind, and removes the foreign documents
// that are left after that. If another generation can replace this one, it fails with errReplaceable
// instead.
func (s *sweep) heal(ctx context.Context, page *sweptPage) error {
	if s.grace > 0 {
		if err := s.loadWatermarks(ctx, page.behind); err != nil {
			return err
		}
	}
	if s.succeeded() {
		if slices.ContainsFunc(page.behind, func(h *folded) bool { return h.watermark < h.last || h.foreign != nil }) {
			return errReplaceable
		}
		return nil
	}
	// Another generation can have been promoted meanwhile. A document that it lacks would be
	// created from the old definition: no guard prevents that.
	if _, err := s.Workers.target(s.job); err != nil {
		return err
	}
	if err := s.fold(ctx, page); err != nil {
		return err
	}
	return s.removeForeign(ctx, page)
}

// succeeded reports whether a generation that is being built can replace the swept one at any
// time. That one may lack an event that the topic has not delivered, so readers would see the
// event disappear at the promotion. The next sweep heals what that generation lacks.
func (s *sweep) succeeded() bool {
	return slices.ContainsFunc(s.Targets(), func(t engine.Target) bool { return t.Succeeds(s.target) })
}

// removeForeign removes the foreign documents of candidates without a write: their events
// have deleted the read model, or are not of the projection, or have parked the aggregate.
// Such an aggregate counts as behind.
func (s *sweep) removeForeign(ctx context.Context, page *sweptPage) error {
	var suspects []*folded
	for _, h := range page.behind {
		if h.foreign != nil {
			suspects = append(suspects, h)
		}
	}
	if err := s.loadWatermarks(ctx, suspects); err != nil {
		return err
	}
	for _, h := range suspects {
		if h.foreign == nil {
			continue
		}
		removed, err := s.Repairer.RemoveForeign(ctx, h.unit, *h.foreign)
		if err != nil {
			return err
		}
		if removed {
			page.counts[CountBehind]++
		}
	}
	return nil
}

// fold folds the candidates of a page that are behind: up to the event at which they are
// parked, if they are. Those that resume by themselves are left to the resumer.
func (s *sweep) fold(ctx context.Context, page *sweptPage) error {
	var units []model.Unit
	var behind []*folded
	for _, h := range page.behind {
		if h.watermark < h.last {
			behind, units = append(behind, h), append(units, h.unit)
		}
	}
	if len(behind) == 0 {
		return nil
	}
	parked, err := s.Parking.Parked(ctx, units)
	if err != nil {
		return fmt.Errorf("read the parked list: %w", err)
	}
	var absent, lagging []*folded
	for i, h := range behind {
		switch at := parked[i]; {
		case at.Resumes, at.EventID == h.watermark+1:
			page.counts[CountParked]++
		case at.EventID > h.watermark:
			h.parkedAt = at.EventID
			lagging = append(lagging, h)
		case h.watermark == h.unit.NoEvent():
			absent = append(absent, h)
		default:
			lagging = append(lagging, h)
		}
	}
	healed := counts{}
	if err := s.followAll(ctx, lagging, healed); err != nil {
		return err
	}
	if err := s.foldAbsent(ctx, absent, healed); err != nil {
		return err
	}
	for _, name := range []string{CountParked, CountFailed, CountWritten, CountUnreadable} {
		page.counts[name] += healed[name]
	}
	page.counts[CountBehind] += healed[CountWritten]
	return nil
}

// bridged is how many aggregates lie at most between two absent ones that are read with one request.
const bridged = 16

// foldAbsent folds aggregates without a read model or a watermark up to their last events, as
// the page has them. Neighbours are read together.
func (s *sweep) foldAbsent(ctx context.Context, absent []*folded, healed counts) error {
	absent, err := s.ofTypes(ctx, absent)
	for err == nil && len(absent) > 0 {
		n := 1
		only := map[string]int64{absent[0].unit.AggregateID: absent[0].last}
		for ; n < len(absent) && absent[n].place-absent[n-1].place <= bridged; n++ {
			only[absent[n].unit.AggregateID] = absent[n].last
		}
		b := &build{Workers: s.Workers, target: s.target, labels: s.labels, since: s.since, only: only, counts: counts{}}
		err = b.run(ctx, span{From: eventstore.Before(absent[0].raw), Until: eventstore.After(absent[n-1].raw), Since: s.since})
		healed.add(b.counts)
		absent = absent[n:]
	}
	return err
}

// searched is about how many events the server searches in one request for their types.
const searched = 100_000

// ofTypes leaves out the aggregates without an event of the projection's types: those are absent in
// each sweep. It keeps aggregates for which the server takes too long to tell.
func (s *sweep) ofTypes(ctx context.Context, absent []*folded) (concerned []*folded, err error) {
	var types []string
	for _, source := range s.target.Projection.Sources() {
		types = append(types, source.AggregateType)
	}
	if slices.Contains(types, "") {
		return absent, nil
	}
	for len(absent) > 0 {
		var ids []bson.RawValue
		events := 0
		for n := 0; n < len(absent) && events < searched; n++ {
			ids, events = append(ids, absent[n].raw), events+int(absent[n].last-absent[n].first+1)
		}
		end, err := s.begin(ctx, events)
		if err != nil {
			return nil, err
		}
		of, err := mongox.Within(ctx, readTimeout, func(ctx context.Context) (map[string]bson.RawValue, error) {
			return s.Events.OfTypes(ctx, ids, types, s.since)
		})
		end()
		if err != nil && !errors.Is(err, mongox.ErrNoAnswer) {
			return nil, err
		}
		for _, h := range absent[:len(ids)] {
			if of == nil || of[h.unit.AggregateID].Type != 0 {
				concerned = append(concerned, h)
			}
		}
		absent = absent[len(ids):]
	}
	return concerned, nil
}

func (s *sweep) save(ctx context.Context) error {
	s.saved = time.Now()
	return savePosition(ctx, s.progress, position{Events: s.at}, s.counts)
}
