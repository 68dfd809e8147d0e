package history

import (
	"bytes"
	"context"
	"errors"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// viewPage is how many documents are listed at once.
const viewPage = 500

// Views compares the documents of views with their parts.
type Views interface {
	// Compare returns a document and what its parts make, at the same moment. The error is
	// [model.ErrSuperseded] if the document is of a newer generation.
	Compare(ctx context.Context, u model.Unit, view model.View, key string) (model.ViewDocument, error)
	// Repair makes a document of its parts.
	Repair(ctx context.Context, u model.Unit, view model.View, key string) error
	// Absent returns those documents to which at most limit parts contribute, after the part
	// of the given aggregate, and that do not exist. last is the aggregate of the last part;
	// empty if there is no more.
	Absent(ctx context.Context, u model.Unit, after string, limit int) (keys []string, last string, err error)
}

// viewDocuments compares each document of a view with its parts. The parts are compared with
// their events by the other passes.
func (p *pass) viewDocuments(ctx context.Context, after string) error {
	if err := p.odd(ctx, after); err != nil {
		return err
	}
	for {
		keys, err := p.Listing.Documents(ctx, p.target.Unit(""), after, viewPage)
		if err != nil {
			return err
		}
		if len(keys) > 0 {
			after = keys[len(keys)-1]
		}
		if done, err := p.compareAll(ctx, keys, after, len(keys) < viewPage); done || err != nil {
			return err
		}
	}
}

// absentDocuments looks for documents that a view lacks although parts contribute to them.
func (p *pass) absentDocuments(ctx context.Context, after string) error {
	for {
		keys, last, err := p.Views.Absent(ctx, p.target.Unit(""), after, viewPage)
		if err != nil {
			return err
		}
		after = last
		if done, err := p.compareAll(ctx, keys, after, last == ""); done || err != nil {
			return err
		}
	}
}

// compareAll compares a page of documents, and saves the position after them.
func (p *pass) compareAll(ctx context.Context, keys []string, after string, last bool) (done bool, err error) {
	part := p.newPart()
	part.end = position{After: after}
	if err := p.compareDocuments(ctx, keys, part); err != nil {
		return false, err
	}
	if last {
		return true, p.finish(ctx)
	}
	return false, p.advance(ctx)
}

// compareDocuments compares documents of a view with their parts.
func (p *pass) compareDocuments(ctx context.Context, keys []string, part *part) error {
	for _, key := range keys {
		if !p.params.sampled(key) {
			continue
		}
		f, err := p.compareDocument(ctx, key)
		if err != nil {
			return err
		}
		if f == nil {
			continue
		}
		f.ID = p.job.ID + "/document/" + key
		err = p.record(ctx, f, part, func() error {
			return p.Views.Repair(ctx, p.target.Unit(""), p.target.Projection.View(), key)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// compareDocument compares one document of a view with its parts; nil if it is right.
func (p *pass) compareDocument(ctx context.Context, key string) (*Finding, error) {
	d, err := p.Views.Compare(ctx, p.target.Unit(""), p.target.Projection.View(), key)
	f := &Finding{
		Projection: p.target.Projection.Name(), Generation: max(p.target.Generation, model.FirstGeneration), Document: key, Kind: Different,
	}
	switch {
	case errors.Is(err, model.ErrSuperseded):
		f.Kind, f.Detail = OldGeneration, errNewer(err).Error()
	case err != nil:
		return nil, err
	case d.Err != nil:
		f.Detail = d.Err.Error() + ", and a repair leaves it: delete it by hand, or move it to another collection, and verify again"
	case d.Foreign:
		f.Kind, f.Detail = OldGeneration, "the document is of an older generation"
	case bytes.Equal(d.Stored, d.Whole):
		return nil, nil
	case d.Stored == nil:
		f.Kind, f.Detail = Missing, "there are parts that contribute to the document"
	case d.Whole == nil:
		f.Detail = "no part contributes to the document"
	default:
		c := comparison{}
		c.documents("", d.Whole, d.Stored, nil)
		f.Differences, f.More = c.found, c.more
		if len(c.found) == 0 {
			f.Detail = "the order of the fields differs"
		}
	}
	return f, nil
}
