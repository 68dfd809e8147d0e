package job

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/obs"
)

// metrics describe the jobs of all processes together: each process reports the same
// numbers.
type metrics struct {
	jobs *prometheus.GaugeVec
	age  *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		jobs: obs.GaugeVec(r, "penstock_projector_jobs",
			"Jobs by kind (build, sweep, verify, reconcile) and state (planning, running, done, failed, cancelled), over all processes: each of them reports the same number.", "kind", "state"),
		age: obs.GaugeVec(r, "penstock_projector_job_progress_age_seconds",
			"Longest time without progress of a job that is planned or running, by kind (build, sweep, verify, reconcile); 0 if there is no such job.", "kind"),
	}
	for _, kind := range Kinds() {
		m.age.WithLabelValues(string(kind))
		for _, state := range States() {
			m.jobs.WithLabelValues(string(kind), string(state))
		}
	}
	return m
}

// Run keeps the metrics and [Store.Verifications] up to date until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		if err := s.measure(ctx); err != nil && ctx.Err() == nil {
			s.uncounted.Warn(&s.options.Logger).Err(err).Msg("jobs not counted; retrying")
		}
		timer.Reset(s.options.Refresh)
	}
}

// Verifications returns the verifications that are done, as [Store.Run] has read them last; nil
// before the first time. The caller must not change them.
func (s *Store) Verifications() []Job {
	if found := s.verifications.Load(); found != nil {
		return *found
	}
	return nil
}

// measure counts the jobs, and finds the one without progress for the longest.
func (s *Store) measure(ctx context.Context) error {
	type key struct {
		Kind  Kind  `bson:"kind"`
		State State `bson:"state"`
	}
	var groups []struct {
		ID    key        `bson:"_id"`
		Count int64      `bson:"count"`
		Done  []bson.Raw `bson:"done"`
	}
	is := func(field string, value any) bson.D { return bson.D{{Key: "$eq", Value: bson.A{field, value}}} }
	if err := s.aggregate(ctx, s.jobs, &groups,
		bson.D{{Key: "$group", Value: bson.D{
			// A group of each projection keeps the groups small.
			{Key: "_id", Value: bson.D{{Key: "kind", Value: "$kind"}, {Key: "state", Value: "$state"}, {Key: "projection", Value: "$projection"}}},
			{Key: "count", Value: bson.D{{Key: "$sum", Value: int64(1)}}},
			{Key: "done", Value: bson.D{{Key: "$push", Value: bson.D{{Key: "$cond", Value: bson.A{
				bson.D{{Key: "$and", Value: bson.A{is("$kind", Verify), is("$state", Done)}}}, "$$ROOT", "$$REMOVE",
			}}}}}},
		}}}); err != nil {
		return fmt.Errorf("count jobs: %w", err)
	}
	counts := make(map[key]int64)
	verifications := []Job{}
	for _, g := range groups {
		counts[g.ID] += g.Count
		for _, raw := range g.Done {
			var j Job
			if bson.Unmarshal(raw, &j) == nil {
				verifications = append(verifications, j)
			}
		}
	}
	s.verifications.Store(&verifications)
	ages, err := s.ages(ctx)
	if err != nil {
		return err
	}
	for _, kind := range Kinds() {
		s.metrics.age.WithLabelValues(string(kind)).Set(ages[kind].Seconds())
		for _, state := range States() {
			s.metrics.jobs.WithLabelValues(string(kind), string(state)).Set(float64(counts[key{kind, state}]))
		}
	}
	return nil
}

// ages returns, for each kind, the longest time that an active job has had no progress.
func (s *Store) ages(ctx context.Context) (map[Kind]time.Duration, error) {
	type active struct {
		ID   string `bson:"_id"`
		Kind Kind   `bson:"kind"`
		// Age is in milliseconds, by the server's clock.
		Age int64 `bson:"age"`
	}
	age := func(field string) bson.D {
		return bson.D{{Key: "$subtract", Value: bson.A{mongox.Now, field}}}
	}
	var jobs, saves []active
	if err := s.aggregate(ctx, s.jobs, &jobs,
		bson.D{{Key: "$match", Value: bson.D{{Key: "state", Value: bson.D{{Key: "$in", Value: bson.A{Planning, Running}}}}}}},
		bson.D{{Key: "$limit", Value: int64(maxList)}},
		bson.D{{Key: "$project", Value: bson.D{{Key: "kind", Value: 1}, {Key: "age", Value: age("$progressedAt")}}}}); err != nil {
		return nil, fmt.Errorf("find jobs without progress: %w", err)
	}
	if len(jobs) == 0 {
		return nil, nil
	}
	ids := make([]string, len(jobs))
	for i, j := range jobs {
		ids[i] = j.ID
	}
	if err := s.aggregate(ctx, s.ranges, &saves,
		bson.D{{Key: "$match", Value: bson.D{{Key: "job", Value: bson.D{{Key: "$in", Value: ids}}}, {Key: "savedAt", Value: bson.D{{Key: "$exists", Value: true}}}}}},
		bson.D{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$job"}, {Key: "savedAt", Value: bson.D{{Key: "$max", Value: "$savedAt"}}}}}},
		bson.D{{Key: "$project", Value: bson.D{{Key: "age", Value: age("$savedAt")}}}}); err != nil {
		return nil, fmt.Errorf("find ranges without progress: %w", err)
	}
	saved := make(map[string]int64)
	for _, a := range saves {
		saved[a.ID] = a.Age
	}
	ages := make(map[Kind]time.Duration)
	for _, j := range jobs {
		youngest := j.Age
		if a, ok := saved[j.ID]; ok {
			youngest = min(youngest, a)
		}
		ages[j.Kind] = max(ages[j.Kind], time.Duration(youngest)*time.Millisecond)
	}
	return ages, nil
}

func (s *Store) aggregate(ctx context.Context, on mongox.Collection, into any, stages ...bson.D) error {
	return s.request(ctx, func(ctx context.Context) error {
		cursor, err := on.Aggregate(ctx, stages)
		if err != nil {
			return err
		}
		return cursor.All(ctx, into)
	})
}
