package readmodel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// ViewDocuments compares the documents of views with their parts, and repairs them. Its
// methods take the projection, the generation and the collection of a unit.
type ViewDocuments struct{ db mongoDatabase }

// NewViewDocuments opens the documents of the views of a database. It sets the concerns
// itself.
func NewViewDocuments(db *mongo.Database) *ViewDocuments { return &ViewDocuments{onMongo(db)} }

// Compare reads a document and all its parts. The error is [model.ErrSuperseded] if the
// document is of a newer generation.
func (d *ViewDocuments) Compare(ctx context.Context, u model.Unit, view model.View, key string) (found model.ViewDocument, err error) {
	err = d.transaction(ctx, u, view, func(ctx context.Context, v *viewTransaction) error {
		c, err := v.compare(ctx, key)
		if err == nil {
			found = model.ViewDocument{Stored: c.stored.own, Whole: c.next, Foreign: c.stored.foreign()}
		}
		if errors.Is(err, errNoViewDocument) || errors.Is(err, errNoGeneration) {
			found, err = model.ViewDocument{Err: err}, nil
		}
		return err
	})
	if err != nil {
		return model.ViewDocument{}, fmt.Errorf("compare document %q of %s with its parts: %w", key, u.Projection, err)
	}
	return found, nil
}

// Repair writes a document as its parts make it, and deletes it if it has none. It leaves a
// right document as it is.
func (d *ViewDocuments) Repair(ctx context.Context, u model.Unit, view model.View, key string) error {
	err := d.transaction(ctx, u, view, func(ctx context.Context, v *viewTransaction) error {
		c, err := v.compare(ctx, key)
		if err != nil || !c.stored.foreign() && bytes.Equal(c.stored.own, c.next) {
			return err
		}
		return v.store(ctx, map[string]*viewChange{key: c})
	})
	if err != nil {
		return fmt.Errorf("repair document %q of %s: %w", key, u.Projection, err)
	}
	return nil
}

// wholeTimeout bounds reading all parts of a document. The server ends a transaction after a minute.
const wholeTimeout = 50 * time.Second

// transaction runs do in a transaction, and repeats it while it conflicts with others.
func (d *ViewDocuments) transaction(ctx context.Context, u model.Unit, view model.View, do func(context.Context, *viewTransaction) error) error {
	ctx, cancel := mongox.Timeout(ctx, wholeTimeout)
	defer cancel()
	pause := poll.Backoff{First: firstConflictPause, Max: maxConflictPause}
	for {
		err := d.db.transaction(ctx, func(ctx context.Context) error {
			return do(ctx, &viewTransaction{db: d.db, unit: &u, view: view, now: time.Now(), most: math.MaxInt, mostParts: math.MaxInt, mostChanged: changedBytes})
		})
		if err == nil || !contended(err) || poll.Wait(ctx, pause.Next()) != nil {
			err = mongox.Explain(ctx, err)
			if errors.Is(err, mongox.ErrNoAnswer) {
				err = fmt.Errorf("its parts cannot be read in %v: unless MongoDB is slow at present, choose a key with fewer parts, because such a view can be neither verified nor rebuilt: %w", wholeTimeout, err)
			}
			return err
		}
	}
}

// compare reads a document, and makes it of its parts.
func (v *viewTransaction) compare(ctx context.Context, key string) (*viewChange, error) {
	documents, err := v.find(ctx, []string{key})
	if err != nil {
		return nil, err
	}
	c := &viewChange{stored: documents[key]}
	if c.stored.err != nil {
		return nil, c.stored.err
	}
	whole, err := v.whole(ctx, []string{key})
	if err != nil {
		return nil, err
	}
	c.next = whole[key]
	return c, nil
}

// maxKeys bounds the documents of a command: each key has up to 1,024 bytes, and the server takes
// 16 MiB.
const maxKeys = 10_000

// Absent returns those documents that do not exist although parts of a page contribute to
// them, in order. The page has the next limit units whose aggregate ids are greater than after.
// last is the last of these ids; empty if there are no more. A document belongs to the page of
// the first part that contributes to it: the parts of one document can be on every page.
func (d *ViewDocuments) Absent(ctx context.Context, u model.Unit, after string, limit int) (keys []string, last string, err error) {
	page, err := mongox.Within(ctx, groupTimeout, func(ctx context.Context) ([]bson.Raw, error) {
		return d.db.inOrder(ctx, watermarksCollection, sidesAfter(u.Projection, after, u.Number()), build(48).int(pathKeys, 1).raw(), limit)
	})
	if err != nil {
		return nil, "", fmt.Errorf("list the parts of %s: %w", u.Projection, err)
	}
	for _, record := range page {
		last = sideKeyIn(record).aggregateID
		found, err := keysIn(record)
		if err != nil {
			return nil, "", fmt.Errorf("read part of %s in %s: %w", last, u.Projection, err)
		}
		keys = append(keys, found...)
	}
	if len(page) < limit {
		last = ""
	}
	slices.Sort(keys)
	var absent []string
	for some := range slices.Chunk(slices.Compact(keys), maxKeys) {
		stored, err := d.db.find(ctx, u.Collection, byID(some), idOnly, len(some))
		if err != nil {
			return nil, "", err
		}
		exists := make(map[string]bool, len(stored))
		for _, document := range stored {
			id, _ := document.Lookup(fieldID).StringValueOK()
			exists[id] = true
		}
		some, err = d.firstAfter(ctx, &u, slices.DeleteFunc(some, func(key string) bool { return exists[key] }), after)
		if err != nil {
			return nil, "", err
		}
		absent = append(absent, some...)
	}
	return absent, last, nil
}

// firstAfter returns those documents to which no part of an aggregate up to the given one
// contributes.
func (d *ViewDocuments) firstAfter(ctx context.Context, u *model.Unit, keys []string, last string) ([]string, error) {
	if last == "" {
		return keys, nil
	}
	ctx, cancel := mongox.Timeout(ctx, groupTimeout)
	defer cancel()
	// Few documents are absent, and most of them have no earlier part. So one request for a part
	// of any of them is enough, and another one for each part that is found.
	for len(keys) > 0 {
		record, err := d.db.db.Collection(watermarksCollection).
			FindOne(ctx, contributingUpTo(u, keys, last), options.FindOne().SetProjection(build(48).int(pathKeys, 1).raw())).Raw()
		if errors.Is(err, mongo.ErrNoDocuments) {
			break
		}
		var earlier []string
		if err == nil {
			earlier, err = keysIn(record)
		}
		if err != nil {
			return nil, fmt.Errorf("look for earlier parts of %d documents of %s: %w", len(keys), u.Projection, mongox.Explain(ctx, err))
		}
		keys = slices.DeleteFunc(keys, func(key string) bool { return slices.Contains(earlier, key) })
	}
	return keys, nil
}
