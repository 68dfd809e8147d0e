package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/lease"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/poll"
)

// CollectionName is the collection's name in the database of the state.
const CollectionName = "reconciliations"

// requestTimeout bounds one request.
const requestTimeout = 10 * time.Second

// In returns the collection in the state database. A majority confirms writes, and reads go
// to the primary.
func In(db *mongo.Database) *mongo.Collection { return mongox.Durable(db, CollectionName) }

// Record is the stored state of a projection's sweeps. A record with only a Projection
// stands for one that was never swept.
type Record struct {
	Projection Projection
	// Sweep is the id of the sweep that is under way; empty if none is.
	Sweep string
	// Due is set if the next sweep is due, by the server's clock.
	Due bool
	// Through is the start of the last sweep that compared every aggregate; zero if there
	// was none.
	Through time.Time
}

// Store keeps the lease and the records of one pipeline. Its processes share them.
type Store struct {
	collection mongox.Collection
	pipeline   string
	// database is the name of the database of the read models.
	database string
	holder   string
	// leased is set while the document of the lease certainly exists.
	leased atomic.Bool
}

// NewStore makes a store. pipeline is the unique name of the pipeline, database that of its read
// models, and holder that of this process. What was swept in another database says nothing about
// this one.
func NewStore(c mongox.Collection, pipeline, database, holder string) *Store {
	return &Store{collection: c, pipeline: pipeline, database: database, holder: holder}
}

// leaseID returns the _id of the lease's document.
func (s *Store) leaseID() bson.D { return bson.D{{Key: "pipeline", Value: s.pipeline}} }

func (s *Store) recordID(projection string) bson.D {
	return bson.D{{Key: "pipeline", Value: s.pipeline}, {Key: "projection", Value: projection}}
}

// longAgo is the end of a lease that no process holds, and the due time of a projection
// that was never swept.
var longAgo = time.Unix(0, 0)

// create creates a document unless it exists. Hold and Begin cannot do this in their own
// updates: an upsert's filter must not contain $expr, which compares with the server's
// clock.
func (s *Store) create(ctx context.Context, id bson.D, document bson.D) error {
	_, err := s.collection.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}},
		bson.D{{Key: "$setOnInsert", Value: document}}, options.UpdateOne().SetUpsert(true))
	if err != nil && !mongox.DuplicateKeyOnID(err) {
		return err
	}
	return nil
}

// reconciling has the fields of the lease.
var reconciling = lease.Fields{Until: "until", Holder: "holder"}

// Hold takes or renews the lease. It returns false if another process holds it.
func (s *Store) Hold(ctx context.Context, lasts time.Duration) (bool, error) {
	ctx, cancel := mongox.Timeout(ctx, requestTimeout)
	defer cancel()
	if !s.leased.Load() {
		if err := s.create(ctx, s.leaseID(), bson.D{{Key: "holder", Value: ""}, {Key: "until", Value: longAgo}}); err != nil {
			return false, mongox.Explain(ctx, err)
		}
	}
	// A process that renews the lease has survived its last beat.
	renewed := bson.D{{Key: "$eq", Value: bson.A{"$holder", mongox.Literal(s.holder)}}}
	deaths := bson.E{Key: "deaths", Value: bson.D{{Key: "$cond", Value: bson.A{renewed, 0, bson.D{{Key: "$ifNull", Value: bson.A{"$deaths", 0}}}}}}}
	result, err := s.collection.UpdateOne(ctx, bson.D{{Key: "_id", Value: s.leaseID()}, reconciling.FreeFor(s.holder)},
		bson.A{bson.D{{Key: "$set", Value: append(reconciling.Take(s.holder, lasts), deaths)}}})
	if err != nil {
		return false, mongox.Explain(ctx, err)
	}
	// Without a match, another process holds the lease, or an operator has deleted the
	// document.
	s.leased.Store(result.MatchedCount == 1)
	return result.MatchedCount == 1, nil
}

// Release ends the lease if this process holds it.
func (s *Store) Release(ctx context.Context) error {
	ctx, cancel := mongox.Timeout(ctx, requestTimeout)
	defer cancel()
	_, err := s.collection.UpdateOne(ctx, bson.D{{Key: "_id", Value: s.leaseID()}, {Key: "holder", Value: s.holder}},
		bson.A{bson.D{{Key: "$set", Value: bson.D{reconciling.Release(0)}}}})
	if err != nil {
		return fmt.Errorf("give the lease back: %w", mongox.Explain(ctx, err))
	}
	return nil
}

// firstRetry and lastRetry bound the waits after the deaths of reconcilers in a row.
const firstRetry, lastRetry = time.Second, leaseLasts

// Abandon ends the lease if one of the dead processes holds it, and returns how many leases
// have ended. A request of the dead process that is still in flight matches nothing after
// another process has taken the lease. Before that, it can take the lease again: then the lease
// lasts as it would have without Abandon.
//
// The lease is free soon, and later after each further death in a row: a pass over the dead
// letters that ends its process again and again leaves it time for other work. It is free no
// later than if it had expired.
func (s *Store) Abandon(ctx context.Context, dead []string) (ended int, err error) {
	ctx, cancel := mongox.Timeout(ctx, requestTimeout)
	defer cancel()
	held := bson.D{{Key: "_id", Value: s.leaseID()}, {Key: "holder", Value: bson.D{{Key: "$in", Value: dead}}}, reconciling.Alive()}
	var last struct {
		Deaths int `bson:"deaths"`
	}
	err = s.collection.FindOne(ctx, held).Decode(&last)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the lease of a dead reconciler: %w", mongox.Explain(ctx, err))
	}
	result, err := s.collection.UpdateOne(ctx, held, bson.A{bson.D{{Key: "$set", Value: bson.D{
		{Key: "holder", Value: mongox.Literal("")},
		reconciling.Shorten(poll.After(firstRetry, lastRetry, last.Deaths+1)),
		{Key: "deaths", Value: mongox.Literal(last.Deaths + 1)},
	}}}})
	if err != nil {
		return 0, fmt.Errorf("end the lease of a dead reconciler: %w", mongox.Explain(ctx, err))
	}
	return int(result.MatchedCount), nil
}

// record is the stored form of a [Record].
type record struct {
	ID struct {
		Projection string `bson:"projection"`
	} `bson:"_id"`
	Generation int64 `bson:"generation"`
	// Database is empty in the records of earlier versions.
	Database string    `bson:"database"`
	Sweep    string    `bson:"sweep"`
	Began    time.Time `bson:"beganAt"`
	Through  time.Time `bson:"through"`
	Due      bool      `bson:"due"`
}

// Read returns the records of all projections of the pipeline.
func (s *Store) Read(ctx context.Context) ([]Record, error) {
	ctx, cancel := mongox.Timeout(ctx, requestTimeout)
	defer cancel()
	stored, err := mongox.All[record](ctx, s.collection)(s.collection.Aggregate(ctx, bson.A{
		bson.D{{Key: "$match", Value: bson.D{{Key: "_id.pipeline", Value: s.pipeline}, {Key: "_id.projection", Value: bson.D{{Key: "$exists", Value: true}}}}}},
		bson.D{{Key: "$addFields", Value: bson.D{{Key: "due", Value: bson.D{{Key: "$lte", Value: bson.A{"$dueAt", mongox.Now}}}}}}},
	}))
	if err != nil {
		return nil, mongox.Explain(ctx, err)
	}
	records := make([]Record, len(stored))
	for i, r := range stored {
		records[i] = Record{Projection: Projection{r.ID.Projection, r.Generation}, Sweep: r.Sweep, Due: r.Due, Through: r.Through}
		if r.Database != "" && r.Database != s.database {
			records[i] = Record{Projection: records[i].Projection, Due: true}
		}
	}
	return records, nil
}

// Begin stores that a sweep of p with the id begins now. read is the record that the
// decision is based on. Begin returns false if another sweep of p is under way.
func (s *Store) Begin(ctx context.Context, p Projection, id string, read Record) (bool, error) {
	ctx, cancel := mongox.Timeout(ctx, requestTimeout)
	defer cancel()
	if err := s.create(ctx, s.recordID(p.Name), bson.D{{Key: "sweep", Value: ""}, {Key: "dueAt", Value: longAgo}}); err != nil {
		return false, fmt.Errorf("create the record: %w", mongox.Explain(ctx, err))
	}
	set := bson.D{
		{Key: "generation", Value: mongox.Literal(p.Generation)},
		{Key: "database", Value: mongox.Literal(s.database)},
		{Key: "sweep", Value: mongox.Literal(id)},
		{Key: "beganAt", Value: mongox.Now},
		{Key: "dueAt", Value: mongox.Now},
	}
	update := bson.A{bson.D{{Key: "$set", Value: set}}}
	if read.Through.IsZero() {
		update = append(update, bson.D{{Key: "$unset", Value: "through"}})
	}
	// A sweep of another generation or in another database is obsolete, so it does not block a
	// new one.
	free := bson.A{
		bson.D{{Key: "sweep", Value: ""}},
		bson.D{{Key: "generation", Value: bson.D{{Key: "$ne", Value: p.Generation}}}},
		bson.D{{Key: "database", Value: bson.D{{Key: "$exists", Value: true}, {Key: "$ne", Value: s.database}}}},
	}
	result, err := s.collection.UpdateOne(ctx, bson.D{{Key: "_id", Value: s.recordID(p.Name)}, {Key: "$or", Value: free}}, update)
	if err != nil {
		return false, fmt.Errorf("store that a sweep begins: %w", mongox.Explain(ctx, err))
	}
	return result.MatchedCount == 1, nil
}

// errNotUnderWay is returned by End if the sweep is not the stored one.
var errNotUnderWay = errors.New("another sweep is under way")

// End stores that the sweep with the id has ended. verified is set if it has compared every
// aggregate. The next sweep is due after wait.
func (s *Store) End(ctx context.Context, p Projection, id string, verified bool, wait time.Duration) error {
	ctx, cancel := mongox.Timeout(ctx, requestTimeout)
	defer cancel()
	set := bson.D{{Key: "sweep", Value: mongox.Literal("")}, {Key: "dueAt", Value: mongox.FromNow(wait)}}
	if verified {
		set = append(set, bson.E{Key: "through", Value: "$beganAt"})
	}
	result, err := s.collection.UpdateOne(ctx,
		bson.D{{Key: "_id", Value: s.recordID(p.Name)}, {Key: "sweep", Value: id}},
		bson.A{bson.D{{Key: "$set", Value: set}}})
	if err == nil && result.MatchedCount == 0 {
		err = errNotUnderWay
	}
	if err != nil {
		return fmt.Errorf("store that a sweep has ended: %w", mongox.Explain(ctx, err))
	}
	return nil
}
