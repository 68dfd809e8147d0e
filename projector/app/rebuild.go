package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

// rebuildCollections are the collections of the read models.
type rebuildCollections struct {
	*catalog.Shadows
	readModels *mongo.Database
	logger     zerolog.Logger
}

var _ catalog.Collections = rebuildCollections{}

// Prepare gives the shadow collection the layout of the collection like, unless read models
// could not exist with it. It logs what the shadow cannot get.
func (c rebuildCollections) Prepare(ctx context.Context, made, like string) (bson.Binary, error) {
	if err := readmodel.CheckModel(ctx, c.readModels, like); err != nil {
		return bson.Binary{}, err
	}
	search, err := readmodel.SearchIndexes(ctx, c.readModels, like)
	if err != nil || len(search) > 0 {
		c.logger.Warn().Err(err).Str("collection", like).Str("newCollection", made).Strs("searchIndexes", search).
			Msg("search indexes are not copied to the new generation: create them again when it is live")
	}
	return c.Shadows.Prepare(ctx, made, like)
}

// removeTimeout bounds one step of removing a generation's data, because the coordinator
// drives other builds too.
const removeTimeout = 2 * time.Second

// rebuildData accesses the side watermarks and the markers.
type rebuildData struct {
	readModels *mongo.Database
	parked     *park.Store
	events     *eventstore.Reader
	// passed has the last watermark that Remove has passed, for each generation of which data is left.
	passed map[park.Served]bson.Raw
}

var _ catalog.Data = rebuildData{}

func newRebuildData(readModels *mongo.Database, parked *park.Store, events *eventstore.Reader) rebuildData {
	return rebuildData{readModels, parked, events, map[park.Served]bson.Raw{}}
}

// Remove removes data of a generation for up to removeTimeout, and reports whether none is
// left.
func (d rebuildData) Remove(ctx context.Context, projection string, generation int64) (bool, error) {
	attempt, cancel := mongox.Timeout(ctx, removeTimeout)
	defer cancel()
	g := park.Served{Projection: projection, Generation: generation}
	_, passed, err := readmodel.Forget(attempt, d.readModels, projection, generation, d.passed[g])
	d.passed[g] = passed
	if err == nil {
		_, err = d.parked.Forget(attempt, g)
	}
	if err == nil {
		delete(d.passed, g)
	}
	if err != nil && ctx.Err() == nil && attempt.Err() != nil {
		return false, nil
	}
	return err == nil, err
}

// Parked counts the parked aggregates of a generation, and describes the one that was
// parked first.
func (d rebuildData) Parked(ctx context.Context, projection string, generation int64) (n int64, example string, err error) {
	filter := park.Filter{Projection: projection, Generation: generation}
	if n, err = d.parked.Matching(ctx, filter); n == 0 || err != nil {
		return n, "", err
	}
	oldest, err := d.parked.List(ctx, filter, 1)
	for _, m := range oldest {
		example = fmt.Sprintf("%s (%s: %s)", m.AggregateID, m.Reason, m.Error)
	}
	return n, example, err
}

// Inspect searches a collection for documents that a promotion would lose.
func (d rebuildData) Inspect(ctx context.Context, collection string, archived bool) (catalog.Inspected, error) {
	var lookUp func(context.Context, []string) ([]string, error)
	if archived {
		lookUp = d.archived
	}
	found, err := readmodel.Inspect(ctx, d.readModels, collection, lookUp)
	return catalog.Inspected{Unmanaged: found.Err(d.readModels, collection), Archived: found.Archived, Example: found.ExampleArchived}, err
}

// archived returns which aggregates have no events in the event store.
func (d rebuildData) archived(ctx context.Context, ids []string) ([]string, error) {
	known, err := d.events.Known(ctx, ids)
	return slices.DeleteFunc(ids, func(id string) bool {
		_, ok := known[id]
		return ok
	}), err
}
