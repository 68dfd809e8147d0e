package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/projector/internal/job"
)

const (
	// sweepGrace is how long an aggregate may be behind the event store before a sweep folds it:
	// the time of an event on its way through the topic. A shorter interval has a shorter grace.
	sweepGrace = 30 * time.Second
	// sweepRetry is the time until a failed sweep is repeated, unless the interval is shorter.
	sweepRetry = 10 * time.Minute
	// slowestBeat is the longest time between two looks for sweeps that are due.
	slowestBeat = 30 * time.Second
	// beats is the number of looks in an interval, if it is short.
	beats = 12
)

// SchedulerOptions configure a [Scheduler].
type SchedulerOptions struct {
	Jobs *job.Store
	// Live returns the live generation of each projection of the pipeline that pods write, by name,
	// and 0 for each one that is retired.
	Live func() map[string]int64
	// Replaceable reports whether a generation that is being built can replace the live one of a
	// projection at any time. No sweep begins meanwhile, because it would heal nothing.
	Replaceable func(projection string) bool
	// Interval is the time between the end of a sweep and the beginning of the next one.
	Interval time.Duration
	// Content makes new sweeps compare and repair the content of the read models, and not only
	// their watermarks.
	Content bool
	// Pod names this process in lists of jobs.
	Pod        string
	Registerer prometheus.Registerer
	Logger     zerolog.Logger
}

// Scheduler starts the periodic sweeps of the live generations. Every process runs one, and
// they need no agreement: the id of a sweep follows from the sweep before it, so all processes
// create the same job.
type Scheduler struct {
	options SchedulerOptions
	through *prometheus.GaugeVec
	// failing is the error of the last beat.
	failing atomic.Pointer[error]
}

// NewScheduler makes a scheduler.
func NewScheduler(o SchedulerOptions) *Scheduler {
	return &Scheduler{options: o, through: obs.GaugeVec(o.Registerer, "penstock_projector_verified_through_timestamp_seconds",
		"Every event that was stored before this time is in the read models of the projection, or its aggregate is parked: the start of the last complete sweep. Every process reports the same time. Absent before the first one.", "projection")}
}

// Run starts sweeps that are due, until ctx ends; then it returns nil.
func (s *Scheduler) Run(ctx context.Context) error {
	beat := min(slowestBeat, s.options.Interval/beats)
	for wait := rand.N(beat); poll.Wait(ctx, wait) == nil; wait = beat - beat/8 + rand.N(beat/4) {
		err := s.beat(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			if s.failing.Swap(&err) == nil {
				s.options.Logger.Warn().Err(err).Msg("read models not reconciled; retrying")
			}
		case s.failing.Swap(nil) != nil:
			s.options.Logger.Info().Msg("read models are reconciled again")
		}
	}
	return nil
}

// Err returns why read models are not reconciled at present; nil if they are.
func (s *Scheduler) Err() error {
	if err := s.failing.Load(); err != nil {
		return *err
	}
	return nil
}

// beat starts the sweeps that are due, and sets the metric.
func (s *Scheduler) beat(ctx context.Context) error {
	latest, err := s.options.Jobs.Latest(ctx, job.Reconcile)
	if err != nil {
		return err
	}
	live := s.options.Live()
	s.through.Reset()
	for name, last := range latest {
		if live[name] != 0 && last.DoneGeneration == live[name] {
			s.through.WithLabelValues(name).Set(float64(last.Done.UnixMilli()) / 1000)
		}
	}
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(live)) {
		last := latest[name]
		if live[name] == 0 {
			// No pod works on a sweep that runs.
			if last.ID != "" && !last.State.Ended() {
				problems = append(problems, s.options.Jobs.Supersede(ctx, name, job.Reconcile, "", "the projection is retired"))
			}
			continue
		}
		if !s.due(last, live[name]) || s.options.Replaceable(name) {
			continue
		}
		if err := s.start(ctx, name, live[name], last); err != nil {
			problems = append(problems, fmt.Errorf("sweep projection %s: %w", name, err))
		}
	}
	return errors.Join(problems...)
}

// due reports whether a sweep of the live generation must start after the last one.
func (s *Scheduler) due(last job.Latest, live int64) bool {
	switch {
	case last.Generation != live:
		// If the last sweep is of a newer generation, this process has not heard of it yet.
		return last.Generation < live
	case !last.State.Ended():
		return false
	case last.State == job.Done:
		return last.Ago >= s.options.Interval
	}
	return last.Ago >= min(sweepRetry, s.options.Interval)
}

// start creates the sweep that follows the last one. A sweep of a replaced generation would never
// end, so it is cancelled.
func (s *Scheduler) start(ctx context.Context, projection string, generation int64, last job.Latest) error {
	params, err := bson.Marshal(Params{Repair: s.options.Content, GraceMillis: min(sweepGrace, s.options.Interval).Milliseconds()})
	if err != nil {
		return fmt.Errorf("encode the parameters: %w", err)
	}
	number := 0
	if last.Generation == generation {
		if number, err = strconv.Atoi(last.ID[strings.LastIndexByte(last.ID, '-')+1:]); err != nil {
			return fmt.Errorf("sweep %s has no number at its end: %w", last.ID, err)
		}
		number++
	}
	// Ids in the order of the numbers are in the order of the sweeps, whatever the server's clock does.
	id := fmt.Sprintf("reconcile-%s-%d-%08d", projection, generation, number)
	if err := s.options.Jobs.Supersede(ctx, projection, job.Reconcile, id, "another sweep of the projection has begun"); err != nil {
		return err
	}
	_, err = s.options.Jobs.Create(ctx, job.Job{
		ID: id, Kind: job.Reconcile, Projection: projection, Generation: generation, Params: params,
		Who: "projector " + s.options.Pod, Why: "PENSTOCK_RECONCILE",
	})
	return err
}
