package history

import (
	"context"
	"fmt"
	"slices"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// reversePage is the number of ids that are looked up in the event store at once.
const reversePage = 500

// maxOdd bounds the reported documents whose _id is not a string.
const maxOdd = 100

// documents looks for documents of aggregates that the event store does not have.
func (p *pass) documents(ctx context.Context, after string) error {
	if err := p.odd(ctx, after); err != nil {
		return err
	}
	return p.reverse(ctx, after, p.Listing.Documents, func(context.Context, []string) ([]string, error) { return nil, nil })
}

// odd reports the documents whose _id is not a string, when the listing begins.
func (p *pass) odd(ctx context.Context, after string) error {
	if after != "" {
		return nil
	}
	odd, err := p.Listing.Odd(ctx, p.target.Unit(""), maxOdd)
	if err != nil {
		return err
	}
	part := p.newPart()
	for _, id := range odd {
		f := p.extra(id, "the document's _id is not a string: it is not a read model of Penstock")
		if err := p.settle(ctx, aggregate{id: id}, f, part); err != nil {
			return err
		}
	}
	return nil
}

// watermarks looks for side watermarks of aggregates that the event store does not have. An
// aggregate that has a document too is found by [pass.documents], and must not count twice.
func (p *pass) watermarks(ctx context.Context, after string) error {
	return p.reverse(ctx, after, p.Listing.Watermarks, func(ctx context.Context, ids []string) ([]string, error) {
		u := p.target.Unit("")
		if u.Parts {
			return nil, nil // The documents of a view are no aggregates.
		}
		return p.Listing.Listed(ctx, u, ids)
	})
}

// reverse looks the listed aggregates up in the event store. others returns those ids that
// another direction reports.
func (p *pass) reverse(ctx context.Context, after string, list func(context.Context, model.Unit, string, int) ([]string, error), others func(context.Context, []string) ([]string, error)) error {
	for {
		ids, err := list(ctx, p.target.Unit(""), after, reversePage)
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			return p.finish(ctx)
		}
		after = ids[len(ids)-1]
		part := p.newPart()
		part.end = position{After: after}
		known, err := p.Events.Known(ctx, ids)
		if err != nil {
			return err
		}
		unknown := slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
			_, ok := known[id]
			return ok || !p.params.sampled(id)
		})
		if len(unknown) > 0 {
			elsewhere, err := others(ctx, unknown)
			if err != nil {
				return err
			}
			unknown = slices.DeleteFunc(unknown, func(id string) bool { return slices.Contains(elsewhere, id) })
		}
		for _, id := range unknown {
			a := aggregate{id: id}
			// The read model may have changed since it was listed, and the finding needs
			// its watermark.
			finding, late, err := p.look(ctx, p.target, &a)
			p.countRead(&a)
			if err != nil {
				return err
			}
			if finding == nil && late != nil && late.Kind == OldGeneration {
				finding = late
			}
			if finding == nil {
				continue
			}
			finding.Kind, finding.Detail = Extra, "the event store has no event of the aggregate"
			if err := p.settle(ctx, a, finding, part); err != nil {
				return err
			}
		}
		if err := p.advance(ctx); err != nil {
			return err
		}
		if len(ids) < reversePage {
			return p.finish(ctx)
		}
	}
}

// single checks one aggregate.
func (p *pass) single(ctx context.Context, id string) error {
	part := p.newPart()
	part.counts[CountAggregates]++
	a := aggregate{id: id}
	if err := p.confirm(ctx, &a, part); err != nil {
		return err
	}
	part.countUnreadable(a.unreadable)
	if view := p.target.Projection.View(); view != nil {
		state, err := p.load(ctx, p.target.Unit(id))
		if err != nil {
			return err
		}
		keys := view.Keys(state.Document)
		p.Store.Release([]model.State{state})
		if err := p.compareDocuments(ctx, keys, part); err != nil {
			return err
		}
	}
	if a.raw.Type == 0 && part.open == 0 && Wrong(part.counts) == 0 {
		part.counts[CountAggregates], part.counts[CountUnknown] = 0, 1
	}
	return p.finish(ctx)
}

// extra returns a finding about a document that has no events in the event store.
func (p *pass) extra(id, detail string) *Finding {
	return &Finding{
		Projection: p.target.Projection.Name(), Generation: max(p.target.Generation, model.FirstGeneration),
		AggregateID: id, Kind: Extra, Detail: detail,
	}
}

// listed wraps the error of listing documents or side watermarks.
func listed(what string, err error) error { return fmt.Errorf("list the %s: %w", what, err) }
