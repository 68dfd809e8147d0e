package catalog

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// The collections in the state database.
const (
	CatalogName  = "projections"
	RegistryName = "projectors"
)

// ErrConflict is returned if an entry has changed since it was read. The caller must read
// it again and decide again.
var ErrConflict = errors.New("the catalog entry was changed by another process")

// Catalog is the stored catalog of one pipeline's projections. It is safe for concurrent
// use. Contexts should have no deadline of their own.
type Catalog struct {
	collection mongox.Collection
	pipeline   string
}

// NewCatalog makes the catalog of a pipeline. An operator's command, which does not know
// the pipeline, leaves it empty: then [Catalog.List] returns the entries of all
// pipelines.
func NewCatalog(c mongox.Collection, pipeline string) *Catalog { return &Catalog{c, pipeline} }

// List returns all entries of the pipeline, by name. It fails if one of them cannot be read,
// because no decision is safe on a part of the catalog; the entries that it returns with a
// [mongox.UnreadableError] are the others.
func (c *Catalog) List(ctx context.Context) (map[string]*Entry, error) {
	filter := bson.D{}
	if c.pipeline != "" {
		filter = bson.D{{Key: "pipeline", Value: c.pipeline}}
	}
	found, err := mongox.All[*Entry](ctx, c.collection)(c.collection.Find(ctx, filter))
	if err != nil {
		err = fmt.Errorf("read the catalog of projections: %w", err)
	}
	entries := make(map[string]*Entry, len(found))
	for _, e := range found {
		entries[e.Name] = e
	}
	return entries, err
}

// Adopt moves the named entries from other pipelines to this one. Only the owner of the
// projections' names may call it.
func (c *Catalog) Adopt(ctx context.Context, names []string) error {
	for _, name := range names {
		_, err := c.collection.UpdateOne(ctx,
			bson.D{{Key: "_id", Value: name}, {Key: "pipeline", Value: bson.D{{Key: "$ne", Value: c.pipeline}}}},
			bson.D{{Key: "$set", Value: bson.D{{Key: "pipeline", Value: c.pipeline}}}, {Key: "$inc", Value: bson.D{{Key: "revision", Value: int64(1)}}}})
		if err != nil {
			return fmt.Errorf("adopt the catalog entry of projection %s: %w", name, err)
		}
	}
	return nil
}

// Write replaces the stored entry old with changed, or creates changed if old is nil. It
// returns the stored entry. The error is [ErrConflict] if the stored entry is no longer
// old.
func (c *Catalog) Write(ctx context.Context, old, changed *Entry) (*Entry, error) {
	stored := changed.copy()
	if old == nil {
		stored.Revision = 1
		_, err := c.collection.InsertOne(ctx, stored)
		switch {
		case mongo.IsDuplicateKeyError(err):
			return nil, fmt.Errorf("create the catalog entry of projection %s: %w", changed.Name, ErrConflict)
		case err != nil:
			return nil, fmt.Errorf("create the catalog entry of projection %s: %w", changed.Name, err)
		}
		return stored, nil
	}
	stored.Revision = old.Revision + 1
	filter := bson.D{{Key: "_id", Value: old.Name}, {Key: "revision", Value: old.Revision}}
	result, err := c.collection.UpdateOne(ctx, filter, bson.D{{Key: "$set", Value: stored}})
	switch {
	case err != nil:
		return nil, fmt.Errorf("change the catalog entry of projection %s: %w", changed.Name, err)
	case result.MatchedCount == 0:
		return nil, fmt.Errorf("change the catalog entry of projection %s at revision %d: %w", changed.Name, old.Revision, ErrConflict)
	}
	return stored, nil
}
