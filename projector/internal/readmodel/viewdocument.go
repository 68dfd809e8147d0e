package readmodel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

var (
	// errNoViewDocument says that the engine has not written the document.
	errNoViewDocument = errors.New("the document has no valid " + model.FieldParts + " and " + model.FieldLastUpdatedAt + ": it is not a view document of Penstock")
	// errTooMuch says that a transaction has too many bytes. It is the verdict on a single
	// operation, and divides several.
	errTooMuch = fmt.Errorf("the documents that change have more than %d MiB together: let a part contribute to fewer documents, or leave out as", changedBytes>>20)
)

// viewError says that a document cannot be made of its parts.
type viewError struct {
	key string
	err error
}

func (e *viewError) Error() string { return fmt.Sprintf("make view document %q: %v", e.key, e.err) }
func (e *viewError) Unwrap() error { return e.err }

// viewDocument is a view document as it was found. The zero value is an absent one.
type viewDocument struct {
	// raw is the stored document, of whatever generation.
	raw bson.Raw
	// own is the document as its view makes it; nil if it is absent or of an older generation.
	own bson.Raw
	// err says that the document must not be written.
	err error
}

// foreign reports whether the document is of an older generation. It counts as absent, and is
// replaced.
func (d *viewDocument) foreign() bool { return d.raw != nil && d.own == nil }

// viewDocumentOf reads a stored document for a generation of a view.
func viewDocumentOf(raw bson.Raw, u *model.Unit) viewDocument {
	d := viewDocument{raw: raw}
	of, ok := generationOf(raw)
	isView := isViewDocument(raw)
	_, isReadModel := watermarkOf(raw)
	switch own := u.Number(); {
	case !isView && !isReadModel:
		d.err = errNoViewDocument
	case !ok:
		d.err = errNoGeneration
	case of > own:
		d.err = fmt.Errorf("document of %s, of which there is generation %d: %w", u.Projection, of, model.ErrSuperseded)
	case of < own:
	case !isView:
		d.err = errNoViewDocument
	default:
		d.own = ownFields(raw)
	}
	return d
}

// isViewDocument reports whether a view has written a document: it has a number of parts.
func isViewDocument(document bson.Raw) bool {
	n, ok := wholeNumber(document, model.FieldParts, 0)
	return ok && n > 0 && document.Lookup(model.FieldLastUpdatedAt).Type == bson.TypeDateTime
}

// ownFields returns a view document as its view has made it.
func ownFields(document bson.Raw) bson.Raw {
	b := build(len(document))
	for rest := document[4:]; len(rest) > 1; {
		element, after, ok := bsoncore.ReadElement(bsoncore.Document(rest))
		if !ok {
			break
		}
		if !model.EngineOwned(element.Key()) {
			b.dst = append(b.dst, element...)
		}
		rest = after
	}
	return b.raw()
}

// viewTransaction reads and writes documents of one generation of a view, within a
// transaction.
type viewTransaction struct {
	db   database
	unit *model.Unit
	view model.View
	now  time.Time
	// building says that a promotion will rename the collection.
	building bool
	// most bounds the bytes of documents that are read, mostParts those of parts, and mostChanged
	// those of documents that are made.
	most, mostParts, mostChanged int
}

// find reads documents by their ids. Absent ones are not in the result.
func (v *viewTransaction) find(ctx context.Context, keys []string) (map[string]viewDocument, error) {
	found, complete, err := v.db.page(ctx, v.unit.Collection, byID(keys), nil, len(keys), v.most)
	if err != nil {
		return nil, err
	}
	if !complete {
		return nil, errTooMuch
	}
	documents := make(map[string]viewDocument, len(found))
	for _, raw := range found {
		if key, ok := raw.Lookup(fieldID).StringValueOK(); ok {
			documents[key] = viewDocumentOf(raw, v.unit)
		}
	}
	return documents, nil
}

// whole makes documents of all their parts, as they are after the changes that the transaction
// has made.
func (v *viewTransaction) whole(ctx context.Context, keys []string) (map[string]bson.Raw, error) {
	folds := make(map[string]model.ViewFold, len(keys))
	for _, key := range keys {
		folds[key] = v.view.Begin(key)
	}
	read := 0
	err := v.db.each(ctx, watermarksCollection, contributing(v.unit, keys), func(record bson.Raw) error {
		// The parts of one document must be read in any case.
		if read += len(record); read > v.mostParts && len(keys) > 1 {
			return errTooMuch
		}
		id := sideKeyIn(record).aggregateID
		// A record whose watermark somebody has changed parks its own aggregate. It must not
		// keep the others from their document, for which only the part matters.
		document, ok := record.Lookup(fieldPart).DocumentOK()
		if !ok {
			return fmt.Errorf("part of %s in %s: %w", id, v.unit.Projection, errNoRecord)
		}
		// The record is not valid any more when the next one is read.
		for key, part := range v.view.Split(slices.Clone(document)) {
			fold := folds[key]
			if fold == nil {
				continue
			}
			if err := fold.Add(model.Part{AggregateID: id, Document: part}); err != nil {
				return &viewError{key, err}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	documents := make(map[string]bson.Raw, len(keys))
	for key, fold := range folds {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if documents[key], err = fold.Document(); err != nil {
			return nil, &viewError{key, err}
		}
	}
	return documents, nil
}

// viewChange is a document before and after a transaction.
type viewChange struct {
	stored viewDocument
	// parts are the changes of its parts. left says that some of them have contributed to it
	// before.
	parts []model.PartChange
	left  bool
	// next is the document afterwards, as its view makes it; nil for none.
	next bson.Raw
}

// compute makes each document. The changes of its parts must have been written.
func (v *viewTransaction) compute(ctx context.Context, changes map[string]*viewChange) error {
	var whole []string
	made := 0
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		c := changes[key]
		if err := ctx.Err(); err != nil {
			return err
		}
		if c.stored.foreign() || c.stored.raw == nil && c.left {
			whole = append(whole, key)
			continue
		}
		next, ok, err := v.view.Merge(key, c.stored.own, c.parts)
		if err != nil {
			return &viewError{key, err}
		}
		if c.next = next; !ok {
			whole = append(whole, key)
		}
		if made += len(next); made > v.mostChanged {
			return errTooMuch
		}
	}
	if len(whole) == 0 {
		return nil
	}
	documents, err := v.whole(ctx, whole)
	if err != nil {
		return err
	}
	for _, key := range whole {
		changes[key].next = documents[key]
		if made += len(documents[key]); made > v.mostChanged {
			return errTooMuch
		}
	}
	return nil
}

// store writes documents. All of them get a new lastUpdatedAt, so that transactions that
// change parts of one document conflict, even if the rest of it stays the same.
func (v *viewTransaction) store(ctx context.Context, changes map[string]*viewChange) error {
	var inserts, removals []bson.Raw
	var replacements []update
	for _, key := range inStoreOrder(changes) {
		c := changes[key]
		if c.next == nil {
			if c.stored.raw != nil {
				removals = append(removals, asFound(key, c.stored.raw))
			}
			continue
		}
		document := v.document(key, c)
		if len(document) > maxDocument {
			return &viewError{key, fmt.Errorf("it has %d bytes, more than MongoDB's %d", len(document), maxDocument)}
		}
		if c.stored.raw == nil {
			inserts = append(inserts, document)
		} else {
			replacements = append(replacements, update{filter: asFound(key, c.stored.raw), change: document, whole: true})
		}
	}
	if len(removals) > 0 {
		if removed, err := v.db.remove(ctx, v.unit.Collection, removals); err != nil || removed != len(removals) {
			return cmp.Or(err, errOvertaken)
		}
	}
	if len(replacements) > 0 {
		if matched, err := v.db.update(ctx, v.unit.Collection, replacements); err != nil || matched != len(replacements) {
			return cmp.Or(err, errOvertaken)
		}
	}
	if len(inserts) > 0 {
		if err := v.notPromoted(ctx); err != nil {
			return err
		}
		return v.db.insert(ctx, v.unit.Collection, inserts)
	}
	return nil
}

// inStoreOrder sorts keys: documents that only lose parts come first. A part that moves can
// bring a value that is unique in the collection. MongoDB compares each write with the other
// documents at once, also in a transaction. So the old document must give the value up before
// the new one gets it.
func inStoreOrder(changes map[string]*viewChange) []string {
	keys := slices.Sorted(maps.Keys(changes))
	slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(changes[a].gains(), changes[b].gains()) })
	return keys
}

// gains is 0 if all parts that change leave the document, 2 if all of them join it, and 1
// otherwise.
func (c *viewChange) gains() int {
	switch {
	case !slices.ContainsFunc(c.parts, func(p model.PartChange) bool { return p.After != nil }):
		return 0
	case c.left:
		return 1
	}
	return 2
}

// notPromoted makes sure that an insert does not create the collection anew after a promotion
// has renamed it. The watermarks have no other name after a promotion. So if a pod for which
// the promotion did not wait changed a part under the old name, readers would never see the
// change. The transaction has read documents of the collection, so a rename that has not
// happened by now waits for its end.
func (v *viewTransaction) notPromoted(ctx context.Context) error {
	if !v.building {
		return nil
	}
	exists, err := v.db.exists(ctx, v.unit.Collection)
	if err == nil && !exists {
		err = fmt.Errorf("collection %s is gone: %w", v.unit.Collection, model.ErrSuperseded)
	}
	return err
}

// document makes the document to store. The engine's fields come first, as in all read
// models.
func (v *viewTransaction) document(key string, c *viewChange) bson.Raw {
	return build(len(c.next)+len(key)+104).string(fieldID, key).millis(model.FieldLastUpdatedAt, laterThan(updatedAt(c.stored.raw), v.now)).
		int(model.FieldLastGeneration, v.unit.Number()).elements(c.next).raw()
}

// asFound matches a document with the generation with which it was found. The snapshot of the
// transaction guards the rest.
func asFound(key string, raw bson.Raw) bson.Raw {
	return build(len(key)+64).string(fieldID, key).value(model.FieldLastGeneration, raw.Lookup(model.FieldLastGeneration)).raw()
}
