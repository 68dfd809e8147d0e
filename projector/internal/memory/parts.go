package memory

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// part is the record of a unit of a view.
type part struct {
	watermark int64
	// updatedAt counts the writes, so that a case has the same result at any time.
	updatedAt int64
	// document is nil if the aggregate has no part.
	document bson.Raw
}

// Parts returns the parts of one generation of a view by aggregate, with those that are nil.
func (s *Stores) Parts(projection string, generation int64) map[string]bson.Raw {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string]bson.Raw{}
	for k, p := range s.parts {
		if k.projection == projection && max(k.later, model.FirstGeneration) == max(generation, model.FirstGeneration) {
			found[k.aggregateID] = p.document
		}
	}
	return found
}

// contribute writes a part and the documents to which it contributes, or nothing. changed
// reports whether it has written.
func (s *Stores) contribute(w *model.Write) (written model.Written, changed bool) {
	before := s.parts[keyOf(&w.Unit)]
	switch {
	case before.watermark == w.From && before.updatedAt == w.UpdatedAt:
	case before.watermark == w.To:
		// Another writer has folded the same events.
		return model.Written{Status: model.Applied}, false
	default:
		return model.Written{Status: model.Stale}, false
	}
	after := part{watermark: w.To, updatedAt: before.updatedAt + 1, document: w.Document}
	documents := map[string]bson.Raw{}
	if !bytes.Equal(before.document, after.document) {
		for _, key := range slices.Concat(w.View.Keys(before.document), w.View.Keys(after.document)) {
			if _, done := documents[key]; done {
				continue
			}
			next, err := s.merge(w, key, before.document)
			switch {
			case errors.Is(err, model.ErrSuperseded):
				return model.Written{Status: model.Unknown, Err: err}, false
			case err != nil:
				return model.Written{Status: model.Rejected, Err: fmt.Errorf("document %s: %w", key, err)}, false
			case len(next) > maxDocument:
				return rejected(len(next)), false
			}
			documents[key] = next
		}
	}
	s.parts[keyOf(&w.Unit)] = after
	for key, document := range documents {
		if document == nil {
			delete(s.documents, place{w.Collection, key})
		} else {
			s.documents[place{w.Collection, key}] = document
		}
	}
	return model.Written{Status: model.Applied, UpdatedAt: after.updatedAt}, true
}

// merge returns a document after the write of a part; nil for none. A document of an older
// generation counts as absent.
func (s *Stores) merge(w *model.Write, key string, before bson.Raw) (bson.Raw, error) {
	stored := s.documents[place{w.Collection, key}]
	_, generation := positionOf(stored)
	older := stored != nil && generation < own(&w.Unit)
	if stored != nil && generation > own(&w.Unit) {
		return nil, fmt.Errorf("write %s of %s, of which there is generation %d: %w", key, w.Projection, generation, model.ErrSuperseded)
	}
	document, err := ownFields(stored)
	if err != nil {
		return nil, err
	}
	var next bson.Raw
	merged := false
	if !older {
		next, merged, err = w.View.Merge(key, document, []model.PartChange{{AggregateID: w.AggregateID, Before: before, After: w.Document}})
	}
	if err == nil && !merged {
		next, err = model.Whole(w.View, key, s.contributing(w, key))
	}
	if err != nil || next == nil {
		return nil, err
	}
	return created(w, key, next)
}

// contributing returns the parts of a document after a write.
func (s *Stores) contributing(w *model.Write, key string) (parts []model.Part) {
	add := func(aggregateID string, document bson.Raw) {
		if slices.Contains(w.View.Keys(document), key) {
			parts = append(parts, model.Part{AggregateID: aggregateID, Document: document})
		}
	}
	for k, p := range s.parts {
		if k.projection == w.Projection && k.later == w.Later() && k.aggregateID != w.AggregateID {
			add(k.aggregateID, p.document)
		}
	}
	add(w.AggregateID, w.Document)
	return parts
}
