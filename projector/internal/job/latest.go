package job

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// Latest is the newest job of one kind for a projection.
type Latest struct {
	ID         string
	Generation int64
	State      State
	// Ago is how long ago the job ended, by the server's clock.
	Ago time.Duration
	// Done is when the newest job that is done was created; zero if there is none. DoneGeneration
	// is the generation of that job.
	Done           time.Time
	DoneGeneration int64
}

// Latest returns the newest job of a kind for each projection, by name: that of the highest
// generation, with the highest id. The time says nothing about that, because the server's clock can
// be set back.
func (s *Store) Latest(ctx context.Context, kind Kind) (map[string]Latest, error) {
	type row struct {
		Projection string `bson:"_id"`
		Newest     struct {
			ID         string `bson:"id"`
			Generation int64  `bson:"generation"`
			State      State  `bson:"state"`
			Ago        int64  `bson:"ago"`
		} `bson:"newest"`
		Done struct {
			Generation int64     `bson:"generation"`
			Created    time.Time `bson:"created"`
		} `bson:"done"`
	}
	// The newest document is the largest one, because its generation and its id come first.
	newest := bson.D{
		{Key: "generation", Value: "$generation"}, {Key: "id", Value: "$_id"}, {Key: "state", Value: "$state"},
		{Key: "ago", Value: bson.D{{Key: "$subtract", Value: bson.A{mongox.Now, bson.D{{Key: "$ifNull", Value: bson.A{"$finishedAt", mongox.Now}}}}}}},
	}
	done := bson.D{{Key: "$cond", Value: bson.A{
		bson.D{{Key: "$eq", Value: bson.A{"$state", mongox.Literal(Done)}}},
		bson.D{{Key: "generation", Value: "$generation"}, {Key: "created", Value: "$createdAt"}}, nil,
	}}}
	latest := make(map[string]Latest)
	err := s.request(ctx, func(ctx context.Context) error {
		rows, err := mongox.All[row](ctx, s.jobs)(s.jobs.Aggregate(ctx, bson.A{
			bson.D{{Key: "$match", Value: bson.D{{Key: "kind", Value: kind}}}},
			bson.D{{Key: "$group", Value: bson.D{
				{Key: "_id", Value: "$projection"},
				{Key: "newest", Value: bson.D{{Key: "$max", Value: newest}}},
				{Key: "done", Value: bson.D{{Key: "$max", Value: done}}},
			}}},
		}))
		for _, r := range rows {
			n := &r.Newest
			latest[r.Projection] = Latest{
				ID: n.ID, Generation: n.Generation, State: n.State,
				Ago: time.Duration(n.Ago) * time.Millisecond, Done: r.Done.Created, DoneGeneration: r.Done.Generation,
			}
		}
		return s.omitted.Report(err, s.options.Logger)
	})
	if err != nil {
		return nil, fmt.Errorf("read the newest jobs of kind %s: %w", kind, err)
	}
	return latest, nil
}
