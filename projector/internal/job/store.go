package job

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/obs"
)

// The collections in the state database.
const (
	CollectionName       = "jobs"
	RangesCollectionName = "job_ranges"
)

// requestTimeout bounds one request.
const requestTimeout = 10 * time.Second

// maxRanges bounds the ranges of a job.
const maxRanges = 4096

// maxReason bounds the text of an error in a document.
const maxReason = 2 << 10

// Options refine a [Store].
type Options struct {
	// Keep is the number of ended jobs kept per kind and projection; default 20.
	Keep int
	// Pruned is called with the ids of jobs that are about to be deleted, so that what
	// belongs to them is deleted first; nil for nothing. If it fails, the jobs stay.
	Pruned func(ctx context.Context, ids []string) error
	// Registerer receives the metrics that [Store.Run] keeps up to date; nil for none.
	Registerer prometheus.Registerer
	// Refresh is how often they are updated; default 15 s.
	Refresh time.Duration
	// Logger is silent by default.
	Logger zerolog.Logger
}

// Store keeps jobs and their ranges. It is safe for concurrent use.
type Store struct {
	jobs, ranges mongox.Collection
	options      Options
	metrics      *metrics
	// verifications are those that are done.
	verifications atomic.Pointer[[]Job]
	// uncounted limits the lines about retries.
	uncounted obs.Repeats
	// omitted reports the records that cannot be read.
	omitted mongox.Omissions
}

// collections returns the collections of the jobs and of their ranges in the state database.
func collections(db *mongo.Database) (jobs, ranges *mongo.Collection) {
	return db.Collection(CollectionName), db.Collection(RangesCollectionName)
}

// NewStore makes a store in the state database.
func NewStore(db *mongo.Database, o Options) *Store {
	jobs, ranges := collections(db)
	return Open(jobs, ranges, o)
}

// Open makes a store on its collections.
func Open(jobs, ranges mongox.Collection, o Options) *Store {
	o.Keep, o.Refresh = cmp.Or(o.Keep, 20), cmp.Or(o.Refresh, 15*time.Second)
	return &Store{jobs: jobs, ranges: ranges, options: o, metrics: newMetrics(o.Registerer)}
}

// Prepare creates the indexes. If they exist, it changes nothing.
func Prepare(ctx context.Context, db *mongo.Database) error {
	jobs, ranges := collections(db)
	for _, index := range []struct {
		collection *mongo.Collection
		keys       bson.D
	}{
		// The active jobs, and those that pruning keeps.
		{jobs, bson.D{{Key: "state", Value: 1}, {Key: "kind", Value: 1}, {Key: "_id", Value: 1}}},
		{jobs, bson.D{{Key: "kind", Value: 1}, {Key: "projection", Value: 1}, {Key: "finishedAt", Value: -1}}},
		// The open ranges of a plan.
		{ranges, bson.D{{Key: "job", Value: 1}, {Key: "plan", Value: 1}, {Key: "done", Value: 1}, {Key: "index", Value: 1}}},
	} {
		if err := mongox.CreateIndex(ctx, index.collection, index.keys); err != nil {
			return err
		}
	}
	return nil
}

// Create stores a new job in the state [Planning] and returns it. It uses the ID, Kind,
// Projection, Generation, Params, Who and Why of j. If a job with the ID exists for the
// same work, Create returns that job, so a caller can repeat a Create whose outcome is
// unknown. If the ID belongs to other work, the error is [ErrExists].
func (s *Store) Create(ctx context.Context, j Job) (Job, error) {
	if j.ID == "" {
		j.ID = newID(j.Kind)
	}
	set := bson.D{
		{Key: "kind", Value: j.Kind}, {Key: "projection", Value: j.Projection}, {Key: "generation", Value: j.Generation},
		{Key: "state", Value: Planning}, {Key: "who", Value: j.Who}, {Key: "why", Value: j.Why},
		{Key: "epoch", Value: int64(0)}, {Key: "total", Value: int64(0)}, {Key: "ranges", Value: 0}, {Key: "attempts", Value: 0},
		{Key: "leaseUntil", Value: time.Unix(0, 0)},
	}
	if j.Params != nil {
		set = append(set, bson.E{Key: "params", Value: j.Params})
	}
	err := s.request(ctx, func(ctx context.Context) error {
		_, err := s.jobs.UpdateOne(ctx,
			// An existing job has the field, so it does not match, and the insert fails.
			bson.D{{Key: "_id", Value: j.ID}, {Key: "createdAt", Value: bson.D{{Key: "$exists", Value: false}}}},
			bson.D{
				{Key: "$setOnInsert", Value: set},
				{Key: "$currentDate", Value: bson.D{{Key: "createdAt", Value: true}, {Key: "progressedAt", Value: true}}},
			}, options.UpdateOne().SetUpsert(true))
		return err
	})
	if err != nil && !mongox.DuplicateKeyOnID(err) {
		return Job{}, fmt.Errorf("create job %s: %w", j.ID, err)
	}
	created, err := s.find(ctx, j.ID)
	if err == nil && (created.Kind != j.Kind || created.Projection != j.Projection || created.Generation != j.Generation) {
		return Job{}, fmt.Errorf("create job %s: %w: it is a %s of %s, generation %d", j.ID, ErrExists, created.Kind, created.Projection, created.Generation)
	}
	return created, err
}

// newID makes an id that people can type.
func newID(k Kind) string {
	random := make([]byte, 5)
	_, _ = rand.Read(random) // It never fails.
	return string(k) + "-" + hex.EncodeToString(random)
}

// find reads a stored job, without the counts of its ranges.
func (s *Store) find(ctx context.Context, id string) (Job, error) {
	var j Job
	err := s.request(ctx, func(ctx context.Context) error {
		return s.jobs.FindOne(ctx, bson.D{{Key: "_id", Value: id}}).Decode(&j)
	})
	if errors.Is(err, mongo.ErrNoDocuments) {
		return Job{}, fmt.Errorf("read job %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return Job{}, fmt.Errorf("read job %s: %w", id, err)
	}
	return j, nil
}

// request bounds a request by requestTimeout. After the timeout, the error says that the
// server did not answer.
func (s *Store) request(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := mongox.Timeout(ctx, requestTimeout)
	defer cancel()
	return mongox.Explain(ctx, do(ctx))
}

// pipeline is an update whose values the server computes.
func pipeline(set bson.D, unset ...string) bson.A {
	p := bson.A{bson.D{{Key: "$set", Value: set}}}
	if len(unset) > 0 {
		p = append(p, bson.D{{Key: "$unset", Value: unset}})
	}
	return p
}

// next is an expression: a field's value plus one.
func next(field string) bson.D {
	return bson.D{{Key: "$add", Value: bson.A{"$" + field, int64(1)}}}
}
