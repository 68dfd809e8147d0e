package history

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// CollectionName is the collection of findings in the state database.
const CollectionName = "findings"

// maxFindings bounds the stored findings of one job. The job's counts include all.
const maxFindings = 1000

// FindingStore keeps findings in MongoDB.
type FindingStore struct{ collection *mongo.Collection }

// NewFindingStore makes a store in the state database.
func NewFindingStore(db *mongo.Database) *FindingStore {
	return &FindingStore{db.Collection(CollectionName)}
}

// Prepare creates the index. If the index exists, it changes nothing.
func (s *FindingStore) Prepare(ctx context.Context) error {
	return mongox.CreateIndex(ctx, s.collection, bson.D{{Key: "job", Value: 1}, {Key: "_id", Value: 1}})
}

// Put stores a finding, unless the job has 1,000 stored findings already. A finding
// replaces an earlier one about the same aggregate.
func (s *FindingStore) Put(ctx context.Context, f Finding) error {
	kept, err := s.collection.CountDocuments(ctx, bson.D{{Key: "job", Value: f.Job}}, options.Count().SetLimit(maxFindings))
	if err != nil {
		return fmt.Errorf("count the findings of job %s: %w", f.Job, err)
	}
	if kept >= maxFindings {
		return nil
	}
	if _, err := s.collection.ReplaceOne(ctx, bson.D{{Key: "_id", Value: f.ID}}, f, options.Replace().SetUpsert(true)); err != nil {
		return fmt.Errorf("keep the finding about %s: %w", f.AggregateID, err)
	}
	return nil
}

// List returns at most limit findings of a job, ordered by aggregate.
func (s *FindingStore) List(ctx context.Context, job string, limit int) ([]Finding, error) {
	cursor, err := s.collection.Find(ctx, bson.D{{Key: "job", Value: job}}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}).SetLimit(int64(limit)))
	if err != nil {
		return nil, fmt.Errorf("list the findings of job %s: %w", job, err)
	}
	found := []Finding{} // An empty list, because commands print it as JSON.
	if err := cursor.All(ctx, &found); err != nil {
		return nil, fmt.Errorf("list the findings of job %s: %w", job, err)
	}
	return found, nil
}

// Recount returns the counts of a job with those of its stored findings, if all its findings are
// stored. The ranges count the same, except after the death of a process: its successor starts
// from the last save and does not find again what the other one has found since and repaired.
func (s *FindingStore) Recount(ctx context.Context, job string, counts map[string]int64) (map[string]int64, error) {
	found, err := s.List(ctx, job, maxFindings)
	if err != nil || len(found) == maxFindings {
		return counts, err
	}
	recounted := maps.Clone(counts)
	maps.DeleteFunc(recounted, func(name string, _ int64) bool {
		return name == CountRepaired || name == CountUndelivered || slices.Contains(Kinds(), Kind(name))
	})
	if recounted == nil {
		recounted = make(map[string]int64)
	}
	for i := range found {
		found[i].count(recounted)
	}
	return recounted, nil
}

// Delete deletes the findings of jobs.
func (s *FindingStore) Delete(ctx context.Context, jobs []string) error {
	if _, err := s.collection.DeleteMany(ctx, bson.D{{Key: "job", Value: bson.D{{Key: "$in", Value: jobs}}}}); err != nil {
		return fmt.Errorf("delete the findings of %d jobs: %w", len(jobs), err)
	}
	return nil
}

// Erase deletes the findings about an aggregate, and those about a document with its id, and gives
// their number.
func (s *FindingStore) Erase(ctx context.Context, aggregateID string, projections []string) (int64, error) {
	result, err := s.collection.DeleteMany(ctx, bson.D{
		{Key: "projection", Value: bson.D{{Key: "$in", Value: projections}}},
		{Key: "$or", Value: bson.A{bson.D{{Key: "aggregateId", Value: aggregateID}}, bson.D{{Key: "document", Value: aggregateID}}}},
	})
	if err != nil {
		return 0, fmt.Errorf("delete the findings about an aggregate: %w", err)
	}
	return result.DeletedCount, nil
}
