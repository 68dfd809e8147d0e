package operate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/deadletter"
	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/job"
)

func (r *erasing) markers(ctx context.Context) error {
	mine, err := r.mine(ctx)
	if err != nil {
		return err
	}
	n, err := r.s.parked.Erase(ctx, r.Aggregate, slices.Collect(maps.Keys(mine)))
	r.counts["parked"] += n
	return err
}

func (r *erasing) findings(ctx context.Context) error {
	mine, err := r.mine(ctx)
	if err != nil {
		return err
	}
	n, err := history.NewFindingStore(r.s.State).Erase(ctx, r.Aggregate, slices.Collect(maps.Keys(mine)))
	r.counts["findings"] += n
	return err
}

// quarantine deletes the records of the aggregate's events. The publisher keeps them for each
// stream, and its checkpoint says which events a stream has.
func (r *erasing) quarantine(ctx context.Context) error {
	var streams []struct {
		ID string `bson:"_id"`
	}
	cursor, err := r.s.State.Collection("checkpoints").Find(ctx, bson.D{
		{Key: "identity.database", Value: r.s.Events.Database().Name()}, {Key: "identity.collection", Value: r.s.Events.Name()},
	}, options.Find().SetProjection(bson.D{{Key: "_id", Value: 1}}))
	if err == nil {
		err = cursor.All(ctx, &streams)
	}
	if err != nil {
		return fmt.Errorf("read the checkpoints: %w", err)
	}
	for _, stream := range streams {
		result, err := r.s.State.Collection("quarantine").DeleteMany(ctx, bson.D{{Key: "_id.stream", Value: stream.ID}, {Key: "aggregateId", Value: r.Aggregate}})
		if err != nil {
			return fmt.Errorf("delete records of the quarantine: %w", err)
		}
		r.counts["quarantine"] += result.DeletedCount
	}
	return nil
}

// records replaces the id by its hash in the records of earlier commands, and deletes ranges of ended
// jobs: their bounds can have it.
func (r *erasing) records(ctx context.Context) error {
	for name, paths := range map[string][]string{"audit": {"what", "why", "error"}, job.CollectionName: {"why", "reason"}} {
		if err := r.redact(ctx, name, paths); err != nil {
			return fmt.Errorf("replace the id in collection %s: %w", name, err)
		}
	}
	jobs := r.s.State.Collection(job.CollectionName)
	endedStates := slices.DeleteFunc(job.States(), func(s job.State) bool { return !s.Ended() })
	_, err := jobs.UpdateMany(ctx, bson.D{{Key: "params.aggregate", Value: r.Aggregate}, {Key: "state", Value: bson.D{{Key: "$in", Value: endedStates}}}},
		bson.D{{Key: "$set", Value: bson.D{{Key: "params.aggregate", Value: hashed(r.Aggregate)}}}})
	if err != nil {
		return fmt.Errorf("replace the id in jobs: %w", err)
	}
	// The ranges are looked up before the active jobs: those of a job that is planned meanwhile stay.
	// A range can also be left of a job that is gone.
	ranges := r.s.State.Collection(job.RangesCollectionName)
	var of, active []string
	if err := ranges.Distinct(ctx, "job", bson.D{}).Decode(&of); err != nil {
		return fmt.Errorf("list the ranges of jobs: %w", err)
	}
	if err := jobs.Distinct(ctx, "_id", bson.D{{Key: "state", Value: bson.D{{Key: "$nin", Value: endedStates}}}}).Decode(&active); err != nil {
		return fmt.Errorf("list the active jobs: %w", err)
	}
	of = slices.DeleteFunc(of, func(id string) bool { return slices.Contains(active, id) })
	if _, err := ranges.DeleteMany(ctx, bson.D{{Key: "job", Value: bson.D{{Key: "$in", Value: of}}}}); err != nil {
		return fmt.Errorf("delete the ranges of jobs that have ended: %w", err)
	}
	return nil
}

// redact replaces the id in texts of a collection by its hash.
func (r *erasing) redact(ctx context.Context, name string, paths []string) error {
	collection := r.s.State.Collection(name)
	cursor, err := collection.Find(ctx, bson.D{})
	if err != nil {
		return err
	}
	defer func() { _ = mongox.CloseCursor(ctx, cursor) }()
	for cursor.Next(ctx) {
		var set bson.D
		for _, path := range paths {
			text, ok := cursor.Current.Lookup(path).StringValueOK()
			if redacted := r.redacted(text); ok && redacted != text {
				set = append(set, bson.E{Key: path, Value: redacted})
			}
		}
		if set == nil {
			continue
		}
		if _, err := collection.UpdateOne(ctx, bson.D{{Key: "_id", Value: cursor.Current.Lookup("_id")}}, bson.D{{Key: "$set", Value: set}}); err != nil {
			return err
		}
		r.counts["records"]++
	}
	return cursor.Err()
}

// redacted replaces the id in a text by its hash.
func (r *erasing) redacted(text string) string {
	var b strings.Builder
	for {
		at := wordIn(text, r.Aggregate)
		if at < 0 {
			b.WriteString(text)
			return b.String()
		}
		b.WriteString(text[:at] + hashed(r.Aggregate))
		text = text[at+len(r.Aggregate):]
	}
}

func (r *erasing) deadLetters(ctx context.Context) error {
	reader := event.NewReader(r.fields)
	sequences := make(map[int64]bool)
	err := r.eachDeadLetter(ctx, func(m *deadletter.Message) {
		if describeDeadLetter(m, reader).AggregateID == r.Aggregate {
			sequences[m.Sequence] = true
		}
	})
	if err != nil {
		return err
	}
	n, err := deadletter.Remove(ctx, r.queue, sequences, r.e.Logger)
	r.counts["deadLetters"] += int64(n)
	if err != nil {
		return fmt.Errorf("remove dead letters: %w", err)
	}
	return nil
}
