package park

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

const (
	// countEvery is the time between two counts of [Store.Run].
	countEvery = 30 * time.Second
	// countTimeout bounds one count.
	countTimeout = 10 * time.Second
	// afterChange is how long Run waits after a change: aggregates are often parked in
	// bursts.
	afterChange = time.Second
	// A count reads all markers. Run rests for idleFactor times as long as the last one took, and
	// for changeFactor times after a change, and failedFactor times after a failure.
	idleFactor, changeFactor, failedFactor = 50, 20, 10
)

// Group is the key of a count: a generation of a projection, a reason, and whether the
// markers are discarded.
type Group struct {
	Projection string `bson:"projection"`
	Generation int64  `bson:"generation"`
	Reason     string `bson:"reason"`
	// Discarded is set for the discarded markers.
	Discarded bool `bson:"discarded"`
}

// Count returns the number of parked aggregates by group. It leaves out groups that cannot be
// read, because a marker has a field of another type. The log has them.
func (s *Store) Count(ctx context.Context) (map[Group]int64, error) {
	type counted struct {
		Group `bson:"_id"`
		Count int64 `bson:"count"`
	}
	groups, err := mongox.All[counted](ctx, s.collection)(s.collection.Aggregate(ctx, bson.A{
		bson.D{{Key: "$group", Value: bson.D{
			{Key: "_id", Value: bson.D{
				{Key: "projection", Value: "$_id.projection"}, {Key: "generation", Value: "$_id.generation"}, {Key: "reason", Value: "$reason"},
				{Key: "discarded", Value: bson.D{{Key: "$eq", Value: bson.A{"$" + fieldDiscardedEventID, "$" + fieldEventID}}}},
			}},
			{Key: "count", Value: bson.D{{Key: "$sum", Value: int64(1)}}},
		}}},
	}))
	if err := s.omitted.Report(err, s.options.Logger); err != nil {
		return nil, fmt.Errorf("count parked aggregates: %w", err)
	}
	counts := make(map[Group]int64, len(groups))
	for _, g := range groups {
		counts[g.Group] = g.Count
	}
	return counts, nil
}

// Run keeps the metric up to date until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	soon := false
	var rested time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.changed:
			if !soon {
				timer.Reset(max(afterChange, time.Until(rested)))
				soon = true
			}
			continue
		case <-timer.C:
			soon = false
		}
		begun := time.Now()
		counts, err := mongox.Within(ctx, countTimeout, s.Count)
		took := time.Since(begun)
		rested = time.Now().Add(changeFactor * took)
		timer.Reset(max(countEvery, idleFactor*took))
		if err != nil {
			timer.Reset(max(countEvery, failedFactor*took))
			if ctx.Err() == nil {
				s.options.Logger.Warn().Err(err).Msg("parked aggregates not counted")
			}
			continue
		}
		s.publish(counts)
	}
}

// Counts returns the last count of [Store.Run], which the caller must not change; nil before
// the first one.
func (s *Store) Counts() map[Group]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// publish sets the metrics of the projections that this process serves. Their generations
// are added up.
func (s *Store) publish(counts map[Group]int64) {
	s.mu.Lock()
	s.counts = counts
	s.mu.Unlock()
	sums, discarded := make(map[[2]string]int64), make(map[string]int64)
	for _, g := range s.serving() {
		for _, reason := range s.options.Reasons {
			group := Group{Projection: g.Projection, Generation: g.number(), Reason: reason}
			sums[[2]string{g.Projection, reason}] += counts[group]
			group.Discarded = true
			discarded[g.Projection] += counts[group]
		}
	}
	for labels, n := range sums {
		s.parked.WithLabelValues(labels[:]...).Set(float64(n))
	}
	for projection, n := range discarded {
		s.discarded.WithLabelValues(projection).Set(float64(n))
	}
}
