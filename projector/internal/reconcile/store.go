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

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// CollectionName is the collection's name in the database of the state.
const CollectionName = "reconciliations"

// requestTimeout bounds one request.
const requestTimeout = 10 * time.Second

// Store keeps the lease and the records of one pipeline.
type Store struct {
	collection *mongo.Collection
	pipeline   string
	holder     string
	// leased is set while the document of the lease certainly exists.
	leased atomic.Bool
}

var _ Records = (*Store)(nil)

// NewStore makes a store in the state database. It sets the read and write concerns
// itself. pipeline is the unique name of the pipeline, and holder that of this process.
func NewStore(db *mongo.Database, pipeline, holder string) *Store {
	return &Store{
		collection: mongox.Durable(db, CollectionName),
		pipeline:   pipeline,
		holder:     holder,
	}
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

// Hold takes or renews the lease.
func (s *Store) Hold(ctx context.Context, lease time.Duration) (bool, error) {
	ctx, cancel := mongox.Timeout(ctx, requestTimeout)
	defer cancel()
	if !s.leased.Load() {
		if err := s.create(ctx, s.leaseID(), bson.D{{Key: "holder", Value: ""}, {Key: "until", Value: longAgo}}); err != nil {
			return false, mongox.Explain(ctx, err)
		}
		s.leased.Store(true)
	}
	result, err := s.collection.UpdateOne(ctx,
		bson.D{
			{Key: "_id", Value: s.leaseID()},
			{Key: "$expr", Value: bson.D{{Key: "$or", Value: bson.A{
				bson.D{{Key: "$eq", Value: bson.A{"$holder", mongox.Literal(s.holder)}}},
				bson.D{{Key: "$lt", Value: bson.A{"$until", mongox.Now}}},
			}}}},
		},
		bson.A{bson.D{{Key: "$set", Value: bson.D{{Key: "holder", Value: mongox.Literal(s.holder)}, {Key: "until", Value: mongox.FromNow(lease)}}}}})
	if err != nil {
		return false, mongox.Explain(ctx, err)
	}
	if result.MatchedCount == 0 {
		// Another process holds the lease, or an operator has deleted the document.
		s.leased.Store(false)
	}
	return result.MatchedCount == 1, nil
}

// Release ends the lease if this process holds it.
func (s *Store) Release(ctx context.Context) error {
	ctx, cancel := mongox.Timeout(ctx, requestTimeout)
	defer cancel()
	_, err := s.collection.UpdateOne(ctx, bson.D{{Key: "_id", Value: s.leaseID()}, {Key: "holder", Value: s.holder}},
		bson.D{{Key: "$set", Value: bson.D{{Key: "until", Value: longAgo}}}})
	if err != nil {
		return fmt.Errorf("give the lease back: %w", mongox.Explain(ctx, err))
	}
	return nil
}

// record is the stored form of a [Record].
type record struct {
	ID struct {
		Projection string `bson:"projection"`
	} `bson:"_id"`
	Generation int64     `bson:"generation"`
	Sweep      string    `bson:"sweep"`
	Began      time.Time `bson:"beganAt"`
	Through    time.Time `bson:"through"`
	Due        bool      `bson:"due"`
}

// Read returns the records of all projections of the pipeline.
func (s *Store) Read(ctx context.Context) ([]Record, error) {
	ctx, cancel := mongox.Timeout(ctx, requestTimeout)
	defer cancel()
	cursor, err := s.collection.Aggregate(ctx, bson.A{
		bson.D{{Key: "$match", Value: bson.D{{Key: "_id.pipeline", Value: s.pipeline}, {Key: "_id.projection", Value: bson.D{{Key: "$exists", Value: true}}}}}},
		bson.D{{Key: "$addFields", Value: bson.D{{Key: "due", Value: bson.D{{Key: "$lte", Value: bson.A{"$dueAt", mongox.Now}}}}}}},
	})
	var stored []record
	if err == nil {
		err = cursor.All(ctx, &stored)
	}
	if err != nil {
		return nil, mongox.Explain(ctx, err)
	}
	records := make([]Record, len(stored))
	for i, r := range stored {
		records[i] = Record{Projection: Projection{r.ID.Projection, r.Generation}, Sweep: r.Sweep, Due: r.Due, Through: r.Through}
	}
	return records, nil
}

// Begin stores that a sweep begins now.
func (s *Store) Begin(ctx context.Context, p Projection, id string, read Record) (bool, error) {
	ctx, cancel := mongox.Timeout(ctx, requestTimeout)
	defer cancel()
	if err := s.create(ctx, s.recordID(p.Name), bson.D{{Key: "sweep", Value: ""}, {Key: "dueAt", Value: longAgo}}); err != nil {
		return false, fmt.Errorf("create the record: %w", mongox.Explain(ctx, err))
	}
	set := bson.D{
		{Key: "generation", Value: mongox.Literal(p.Generation)},
		{Key: "sweep", Value: mongox.Literal(id)},
		{Key: "beganAt", Value: mongox.Now},
		{Key: "dueAt", Value: mongox.Now},
	}
	update := bson.A{bson.D{{Key: "$set", Value: set}}}
	if read.Through.IsZero() {
		update = append(update, bson.D{{Key: "$unset", Value: "through"}})
	}
	// A sweep of another generation is obsolete, so it does not block a new one.
	free := bson.A{bson.D{{Key: "sweep", Value: ""}}, bson.D{{Key: "generation", Value: bson.D{{Key: "$ne", Value: p.Generation}}}}}
	result, err := s.collection.UpdateOne(ctx, bson.D{{Key: "_id", Value: s.recordID(p.Name)}, {Key: "$or", Value: free}}, update)
	if err != nil {
		return false, fmt.Errorf("store that a sweep begins: %w", mongox.Explain(ctx, err))
	}
	return result.MatchedCount == 1, nil
}

// errNotUnderWay is returned by End if the sweep is not the stored one.
var errNotUnderWay = errors.New("another sweep is under way")

// End stores that the sweep with the id has ended.
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
