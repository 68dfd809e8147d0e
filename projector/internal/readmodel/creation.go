package readmodel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// errOvertaken says that a watermark is not the one that a creation started from.
var errOvertaken = errors.New("a watermark has moved")

// fencedInsert creates documents for a projection that deletes. A writer that has lost its
// session may create a document that was deleted meanwhile, and nothing would conflict with
// its insert. So each creation is a transaction that also writes to the side watermark, if
// that still is the one that the fold started from. The delete has written to the same
// watermark, so a stale creation matches nothing, and two concurrent writes conflict.
func (w *Writer) fencedInsert(ctx context.Context, collection string, operations []*model.Write) []model.Written {
	results, err := w.fencedGroup(ctx, collection, operations)
	if err == nil {
		return results
	}
	if len(operations) == 1 {
		return []model.Written{verdictOnCreation(err)}
	}
	if !aborted(err) || ctx.Err() != nil {
		return unknown(err, len(operations))
	}
	// One operation has aborted all. The stale operations are known now. The rest is halved
	// until the operation with the error is alone.
	results = make([]model.Written, len(operations))
	fresh, at := []*model.Write(nil), []int(nil)
	stale, err := w.overtaken(ctx, collection, operations)
	for i, o := range operations {
		switch {
		case err != nil:
			results[i] = model.Written{Status: model.Unknown, Err: err}
		case stale[i]:
			results[i] = model.Written{Status: model.Stale}
		default:
			fresh, at = append(fresh, o), append(at, i)
		}
	}
	parts := [][]*model.Write{fresh}
	if len(fresh) == len(operations) {
		parts = [][]*model.Write{fresh[:len(fresh)/2], fresh[len(fresh)/2:]}
	}
	for _, part := range parts {
		if len(part) == 0 {
			continue
		}
		for i, result := range w.fencedInsert(ctx, collection, part) {
			results[at[i]] = result
		}
		at = at[len(part):]
	}
	return results
}

// aborted reports whether a transaction was aborted because of one of its operations, not
// because of a transient error.
func aborted(err error) bool {
	return errors.Is(err, errOvertaken) || mongox.HasCode(err, mongox.CodeWriteConflict) || mongox.WriteErrors(err) != nil
}

// fencedGroup creates all documents in one transaction, or none.
func (w *Writer) fencedGroup(ctx context.Context, collection string, operations []*model.Write) ([]model.Written, error) {
	now := time.Now()
	fences := make([]update, len(operations))
	var documents []bson.Raw
	var replacements []update
	for i, o := range operations {
		fences[i] = sideFence(o, now)
		if o.Foreign != nil {
			replacements = append(replacements, replacement(o, now))
		} else {
			documents = append(documents, newDocument(o, now))
		}
	}
	err := w.db.transaction(ctx, func(ctx context.Context) error {
		matched, err := w.db.update(ctx, watermarksCollection, fences)
		if err != nil {
			return err
		}
		if matched != len(fences) {
			return errOvertaken
		}
		if len(replacements) > 0 {
			matched, err := w.db.update(ctx, collection, replacements)
			if err != nil {
				return err
			}
			if matched != len(replacements) {
				return errOvertaken
			}
		}
		if len(documents) == 0 {
			return nil
		}
		return w.db.insert(ctx, collection, documents)
	})
	if err != nil {
		return nil, fmt.Errorf("create %d documents: %w", len(operations), err)
	}
	return judgeAll(nil, len(operations), created(operations, now)), nil
}

// verdictOnCreation gives the result of a single creation from its error.
func verdictOnCreation(err error) model.Written {
	if errors.Is(err, errOvertaken) || mongox.HasCode(err, mongox.CodeWriteConflict) && !errors.Is(err, errUncertain) {
		return model.Written{Status: model.Stale}
	}
	for _, e := range mongox.WriteErrors(err) {
		return judge(e)
	}
	if rejectsCommand(err) {
		return model.Written{Status: model.Rejected, Err: fmt.Errorf("refused by MongoDB: %w", err)}
	}
	// The transaction was aborted, or its outcome is unknown. In both cases the caller
	// loads again.
	return model.Written{Status: model.Unknown, Err: err}
}

// overtaken reports which creations are stale: their document exists, or their watermark
// has changed.
func (w *Writer) overtaken(ctx context.Context, collection string, operations []*model.Write) ([]bool, error) {
	documents, err := w.look(ctx, collection, operations)
	if err != nil {
		return nil, err
	}
	keys := make([]*model.Unit, len(operations))
	for i, o := range operations {
		keys[i] = &o.Unit
	}
	sides, err := sideWatermarks(ctx, w.db, keys)
	if err != nil {
		return nil, err
	}
	stale := make([]bool, len(operations))
	for i, o := range operations {
		taken := documents[o.AggregateID] != nil
		if f := o.Foreign; f != nil {
			taken = !taken || *documents[o.AggregateID] != found{f.Watermark, f.Generation}
		}
		stale[i] = taken || sides[sideKeyOf(&o.Unit)] != o.From
	}
	return stale, nil
}
