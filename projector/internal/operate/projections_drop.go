package operate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

type projectionsDropCommand struct {
	projectionName
	cli.Change `set:"why=required"`
}

// Validate checks the flags. kong calls it.
func (c *projectionsDropCommand) Validate() error {
	return c.RequireWhy("say why the data are deleted; the reason is kept in the audit")
}

func (c *projectionsDropCommand) runOn(ctx context.Context, e *Environment, s *stored) error {
	// An entry that cannot be read may use the collections.
	found, err := s.allEntries(ctx)
	if err != nil {
		return err
	}
	entry, err := c.entry(ctx, s)
	if err != nil {
		return err
	}
	collections := dropped(entry, found)
	switch {
	case len(entry.Dropping) > 0:
		// An earlier command was interrupted. This one ends it.
	case entry.RetiredAt == nil && len(entry.Left) == 0:
		return fmt.Errorf("projection %s is not retired and has left no collection behind: remove it from the projections of every pod first, and wait until \"projector projections list\" says retired; if its projectors are gone permanently, run \"projector projections retire %s\"", c.Name, c.Name)
	case entry.RetiredAt != nil && entry.Dropped() && len(collections) == 0:
		return fmt.Errorf("projection %s is dropped already", c.Name)
	case entry.RetiredAt == nil && len(collections) == 0:
		return fmt.Errorf("other generations use the collections that projection %s has left behind, or replace them when they go live: nothing is deleted", c.Name)
	}
	deletion, err := newDrop(ctx, s, entry, collections)
	if err != nil {
		return err
	}
	existing := slices.Sorted(maps.Keys(deletion.uuids))
	documents, err := countDocuments(ctx, s, existing)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("delete the collections %s of projection %s, with about %d documents", strings.Join(existing, ", "), c.Name, documents)
	if len(existing) == 0 {
		what = fmt.Sprintf("forget the collections %s of projection %s, which are gone already", strings.Join(collections, ", "), c.Name)
	}
	if entry.RetiredAt != nil {
		what += ", and its watermarks and parked list"
	}
	return s.change(ctx, c.Change, what, func(ctx context.Context) (map[string]int64, error) {
		counts, err := deletion.Run(ctx, author(c.Change))
		if err != nil {
			return counts, err
		}
		if len(existing) == 0 {
			fmt.Fprintf(e.stdout, "forgot %s\n", strings.Join(collections, ", "))
			return counts, nil
		}
		fmt.Fprintf(e.stdout, "deleted %s\n", strings.Join(existing, ", "))
		if kept := len(existing) - int(counts["collections"]); kept > 0 {
			fmt.Fprintf(e.stdout, "%d of them were replaced meanwhile, and their new contents are kept\n", kept)
		}
		return counts, nil
	})
}

// dropped returns the collections that a drop deletes: those that no other projection uses.
func dropped(e *catalog.Entry, all map[string]*catalog.Entry) []string {
	mine := make(map[string]bool)
	for _, l := range e.Left {
		mine[l.Collection] = true
	}
	if e.RetiredAt != nil {
		if e.Live != nil {
			mine[e.Live.Collection] = true
		}
		if e.Building != nil {
			mine[e.Building.Shadow] = true
		}
		for _, g := range e.Garbage {
			if g.Shadow != "" {
				mine[g.Shadow] = true
			}
		}
	} else {
		if e.Live != nil {
			delete(mine, e.Live.Collection)
		}
		if e.Building != nil {
			// A promotion may have renamed the new generation to this collection a moment
			// ago.
			delete(mine, e.Building.Collection)
		}
	}
	for name, other := range all {
		if name == e.Name {
			continue
		}
		for collection := range mine {
			if other.Uses(collection) || other.Building != nil && other.Building.Collection == collection {
				delete(mine, collection)
			}
		}
	}
	return slices.Sorted(maps.Keys(mine))
}

func countDocuments(ctx context.Context, s *stored, collections []string) (int64, error) {
	var sum int64
	for _, collection := range collections {
		n, err := s.ReadModels.Collection(collection).EstimatedDocumentCount(ctx)
		if err != nil {
			return 0, fmt.Errorf("count the documents of %s: %w", collection, err)
		}
		sum += n
	}
	return sum, nil
}

// Drop deletes the data of a projection. Only the collections with the UUIDs that NewDrop has
// read are deleted, because another projection may become live under the name meanwhile.
type Drop struct {
	stored      *stored
	entry       *catalog.Entry
	collections []string
	// uuids are those of the collections that exist, by name.
	uuids map[string]bson.Binary
}

// NewDrop prepares to delete collections of an entry of the catalog.
func NewDrop(ctx context.Context, s *config.Stores, c *catalog.Catalog, entry *catalog.Entry, collections []string) (*Drop, error) {
	return newDrop(ctx, &stored{Stores: s, catalog: c, parked: park.NewStore(park.In(s.State), park.Options{})}, entry, collections)
}

func newDrop(ctx context.Context, s *stored, entry *catalog.Entry, collections []string) (*Drop, error) {
	d := &Drop{stored: s, entry: entry, collections: collections, uuids: make(map[string]bson.Binary, len(collections))}
	for _, collection := range collections {
		uuid, err := catalog.NewShadows(s.ReadModels).UUID(ctx, collection)
		if err != nil {
			return nil, err
		}
		if uuid != nil {
			d.uuids[collection] = *uuid
		}
	}
	return d, d.refuseOthers(ctx)
}

// refuseOthers fails if the projection or a collection belongs to another pipeline: that one has
// taken it, or the configured database is not that of the projectors.
func (d *Drop) refuseOthers(ctx context.Context) error {
	database := d.stored.ReadModels.Name()
	declared, err := d.stored.ownerOf(ctx, "projection", d.entry.Name)
	switch {
	case err != nil:
		return err
	case declared != "" && declared != d.entry.Pipeline:
		return fmt.Errorf("%w: projection %s belongs to the pipeline %s in database %s: nothing is deleted; set PENSTOCK_READMODELS_DATABASE to the database of the projectors", errOtherReadModels, d.entry.Name, declared, database)
	case declared == "" && len(d.uuids) == 0:
		return fmt.Errorf("%w: database %s has neither an owner of projection %s nor its collections: nothing is forgotten; set PENSTOCK_READMODELS_DATABASE to the database of the projectors", errOtherReadModels, database, d.entry.Name)
	}
	for _, collection := range d.collections {
		switch owner, err := d.stored.ownerOf(ctx, ownedReadModel, collection); {
		case err != nil:
			return err
		case owner != "" && owner != d.entry.Pipeline:
			return fmt.Errorf("%w: collection %s in database %s belongs to the pipeline %s: nothing is deleted; set PENSTOCK_READMODELS_DATABASE to the database of the projectors; if that pipeline has ended and nobody needs the collection, delete it by hand, and repeat the command", errOtherReadModels, collection, database, owner)
		}
	}
	return nil
}

// Run deletes the data, unless the entry has changed since it was read. A person may take long
// to confirm, and the projection may be live again under the same collection.
func (d *Drop) Run(ctx context.Context, by catalog.Author) (map[string]int64, error) {
	if err := d.refuseUnmanaged(ctx); err != nil {
		return nil, err
	}
	_, err := d.stored.catalog.Write(ctx, d.entry, catalog.BeginDrop(d.entry, d.collections, by))
	if errors.Is(err, catalog.ErrConflict) {
		return nil, fmt.Errorf("%w since the command looked at it: nothing is deleted; check projection %s, and repeat the command", err, d.entry.Name)
	}
	if err != nil {
		return nil, err
	}
	counts, err := d.Delete(ctx)
	if err != nil {
		return counts, fmt.Errorf("%w; repeat the command", err)
	}
	for _, collection := range d.collections {
		if err := catalog.ReleaseName(ctx, catalog.Owners(d.stored.ReadModels), catalog.OwnedName{Kind: ownedReadModel, Name: collection}); err != nil {
			return counts, fmt.Errorf("%w; repeat the command", err)
		}
	}
	_, err = projectionName{d.entry.Name}.changeEntry(ctx, d.stored, func(old *catalog.Entry) (*catalog.Entry, error) {
		return catalog.EndDrop(old, d.collections), nil
	})
	return counts, err
}

// refuseUnmanaged fails if a collection has documents that no projector has written, for
// example because an application uses a collection that the projection has left behind.
func (d *Drop) refuseUnmanaged(ctx context.Context) error {
	for _, collection := range d.collections {
		found, err := readmodel.Inspect(ctx, d.stored.ReadModels, collection, nil)
		if err != nil {
			return err
		}
		if found.Unmanaged > 0 {
			return fmt.Errorf("collection %s has %s that no projector has written, such as the one with _id %s: nothing is deleted; move such documents to another collection, and repeat the command",
				collection, cli.Count(found.Unmanaged, "document"), found.Example)
		}
	}
	return nil
}

// Delete deletes the collections, and changes no entry. Of a retired projection it also
// deletes the side watermarks and markers of all generations. It can be repeated.
func (d *Drop) Delete(ctx context.Context) (map[string]int64, error) {
	counts := map[string]int64{"collections": 0}
	for collection, uuid := range d.uuids {
		dropped, err := catalog.NewShadows(d.stored.ReadModels).DropExactly(ctx, collection, uuid)
		if err != nil {
			return counts, err
		}
		if dropped {
			counts["collections"]++
		}
	}
	if d.entry.RetiredAt == nil {
		return counts, nil
	}
	for _, number := range d.entry.Numbers() {
		watermarks, _, err := readmodel.Forget(ctx, d.stored.ReadModels, d.entry.Name, number, nil)
		counts["watermarks"] += watermarks
		if err != nil {
			return counts, fmt.Errorf("delete the watermarks of %s: %w", d.entry.Name, err)
		}
		markers, err := d.stored.parked.Forget(ctx, park.Served{Projection: d.entry.Name, Generation: number})
		counts["parked"] += markers
		if err != nil {
			return counts, err
		}
	}
	return counts, nil
}
