package eventstore

import (
	"bytes"
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// Indexes say what the indexes of the events collection mean for the services.
type Indexes struct {
	// Exists reports whether the collection exists.
	Exists bool
	// Unique reports whether an index prevents two events of one aggregate with the same id.
	Unique bool
	// Collated reports whether the collection has a default collation, under which the ids of two
	// aggregates can be equal.
	Collated bool
	// TTL is the name of an index that deletes events after a time; empty if there is none.
	TTL string
}

// CheckIndex reads the indexes. It fails with [ErrIndex] if the collection lacks the index of
// ranges. The result is valid then, too.
func (r *Reader) CheckIndex(ctx context.Context) (found Indexes, err error) {
	indexes, err := r.indexes(ctx)
	if err != nil {
		return found, err
	}
	for _, index := range indexes {
		if r.hasKeys(index.Lookup("key")) && truthy(index.Lookup("unique")) && index.Lookup("partialFilterExpression").Type == 0 {
			found.Unique = true
		}
		if index.Lookup("expireAfterSeconds").Type != 0 {
			found.TTL, _ = index.Lookup("name").StringValueOK()
		}
	}
	_, found.Exists, err = r.choose(indexes)
	found.Collated = r.collated.Load()
	return found, err
}

// index gives the name of the index for ranges.
func (r *Reader) index(ctx context.Context) (name string, exists bool, err error) {
	indexes, err := r.indexes(ctx)
	if err != nil {
		return "", false, err
	}
	return r.choose(indexes)
}

func (r *Reader) indexes(ctx context.Context) ([]bson.Raw, error) {
	indexes, err := mongox.All[bson.Raw](ctx, r.events)(r.events.Indexes().List(ctx))
	if err != nil {
		return nil, fmt.Errorf("list indexes of %s: %w", r.name(), err)
	}
	return indexes, nil
}

// choose chooses the index for ranges. A collection without indexes does not exist.
func (r *Reader) choose(indexes []bson.Raw) (name string, exists bool, err error) {
	if len(indexes) == 0 {
		return "", false, nil
	}
	if name := r.usable(indexes); name != "" {
		return name, true, nil
	}
	return "", true, fmt.Errorf("%w: create it with %s, or without unique if the collection is sharded by a key that this index does not begin with; if an index with these keys is hidden, unhide it, and if it is sparse or partial, drop it first", ErrIndex, r.CreateIndex())
}

// CreateIndex returns the command of the MongoDB shell that creates the unique index.
func (r *Reader) CreateIndex() string {
	return fmt.Sprintf("db.getSiblingDB(%q).getCollection(%q).createIndex({%q: 1, %q: 1}, {unique: true})",
		r.events.Database().Name(), r.events.Name(), r.fields.AggregateID, r.fields.EventID)
}

// NotUnique says what an index that is not unique can cost, and how to make it unique. The
// server refuses to create a unique index on keys that have another one.
func (r *Reader) NotUnique() (cost, remedy string) {
	return "the index is not unique: if two different events of an aggregate get the same event id, the second one is dropped as a duplicate and listed nowhere",
		fmt.Sprintf("unless the collection is sharded by a key that the index does not begin with, make it unique: db.getSiblingDB(%q).runCommand({collMod: %q, index: {keyPattern: {%q: 1, %q: 1}, prepareUnique: true}}), then the same with unique instead of prepareUnique, which fails and names the events if two have the same id",
			r.events.Database().Name(), r.events.Name(), r.fields.AggregateID, r.fields.EventID)
}

// usable finds an index that holds every document, in the order of ranges.
func (r *Reader) usable(indexes []bson.Raw) string {
	// The index of _id has the collection's own collation. The index for ranges needs the
	// same one, because a query cannot sort by an index of another collation.
	var collation bson.RawValue
	for _, index := range indexes {
		if name, _ := index.Lookup("name").StringValueOK(); name == "_id_" {
			collation = index.Lookup("collation")
		}
	}
	r.collated.Store(collation.Type != 0)
	for _, index := range indexes {
		name, _ := index.Lookup("name").StringValueOK()
		own := index.Lookup("collation")
		switch {
		case name == "" || !r.hasKeys(index.Lookup("key")),
			truthy(index.Lookup("sparse")),
			truthy(index.Lookup("hidden")),
			index.Lookup("partialFilterExpression").Type != 0,
			own.Type != collation.Type || !bytes.Equal(own.Value, collation.Value):
			continue
		}
		return name
	}
	return ""
}

// hasKeys reports whether key is exactly {aggregateId: 1, eventId: 1}, because min must
// name every field of the index.
func (r *Reader) hasKeys(key bson.RawValue) bool {
	doc, ok := key.DocumentOK()
	if !ok {
		return false
	}
	elements, err := doc.Elements()
	if err != nil || len(elements) != 2 {
		return false
	}
	for i, name := range []string{r.fields.AggregateID, r.fields.EventID} {
		direction, isNumber := elements[i].Value().AsInt64OK()
		if elements[i].Key() != name || !isNumber || direction != 1 {
			return false
		}
	}
	return true
}

func truthy(v bson.RawValue) bool {
	if b, ok := v.BooleanOK(); ok {
		return b
	}
	n, ok := v.AsInt64OK()
	return ok && n != 0
}
