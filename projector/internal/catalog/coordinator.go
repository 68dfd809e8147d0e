package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/projector/internal/job"
)

// Catalog is the part of [Catalog] that a coordinator uses.
type Entries interface {
	List(ctx context.Context) (map[string]*Entry, error)
	Coordinate(ctx context.Context, name, pod string, lease time.Duration) (*Entry, error)
	Renew(ctx context.Context, name string, epoch int64, lease time.Duration) error
	Release(ctx context.Context, name string, epoch int64) error
	WriteAs(ctx context.Context, epoch int64, old, changed *Entry) (*Entry, error)
}

var _ Entries = (*Catalog)(nil)

// Pods lists the alive pods.
type Pods interface {
	Alive(ctx context.Context) ([]Registration, error)
}

// Jobs is the part of [job.Store] that a coordinator uses. Any number of pods work on the jobs.
type Jobs interface {
	Create(ctx context.Context, j job.Job) (job.Job, error)
	Get(ctx context.Context, id string) (job.Job, error)
	Cancel(ctx context.Context, id, reason string) (job.Job, error)
}

var _ Jobs = (*job.Store)(nil)

// verifyGrace is how long a read model may be behind the event store before a verification
// reports it. Events need that time to come over the topic.
const verifyGrace = 30 * time.Second

// Collections are the collections of the read models' database.
type Collections interface {
	// Prepare creates the shadow collection with the options, indexes and shard key of
	// the collection like, if that exists, and returns its UUID. An existing shadow
	// collection gets what has changed meanwhile. That can take long.
	Prepare(ctx context.Context, shadow, like string) (bson.Binary, error)
	// Names returns the names of the collections that start with prefix.
	Names(ctx context.Context, prefix string) ([]string, error)
	// Rename renames a collection. If a collection with the new name exists, it is
	// dropped in the same operation if drop is set; otherwise nothing is renamed. Neither
	// that nor a missing collection from is an error.
	Rename(ctx context.Context, from, to string, drop bool) error
	// Where returns the present name of the collection with the UUID; empty if there is
	// none.
	Where(ctx context.Context, uuid bson.Binary) (string, error)
	// Drop drops a collection, if it exists.
	Drop(ctx context.Context, name string) error
}

// Data are the side watermarks and markers.
type Data interface {
	// Remove removes some side watermarks and markers of a generation, and reports
	// whether none is left.
	Remove(ctx context.Context, projection string, generation int64) (done bool, err error)
	// Parked counts the parked aggregates of a generation, and describes one of them.
	Parked(ctx context.Context, projection string, generation int64) (n int64, example string, err error)
	// Inspect begins to inspect a collection.
	Inspect(collection string) Inspection
}

// Inspection searches a collection for documents that a promotion would drop and the new
// generation does not have.
type Inspection interface {
	// Next continues for about a second. done is set at the end of the collection. Then
	// found says what was found.
	Next(ctx context.Context) (done bool, found Inspected, err error)
}

// Inspected is the result of an [Inspection].
type Inspected struct {
	// Unmanaged describes the documents that no projector has written; nil if there are
	// none.
	Unmanaged error
	// Archived is the number of read models whose aggregates have no events in the event
	// store, and Example is one of them.
	Archived int64
	Example  string
}

const (
	// coordination is how long a coordinator may be silent, by the server's clock.
	coordination = 10 * time.Second
	// renewal is how often it renews its lease.
	renewal = 3 * time.Second
	// tick is the interval at which a pod searches for work. watch is the interval at which
	// it reads the jobs of a build that it drives. busy is the wait before the next step if
	// there is one.
	tick  = 2 * time.Second
	watch = 500 * time.Millisecond
	busy  = 100 * time.Millisecond
	// pauseTimeout is how long pods may take to pause before the promotion is cancelled,
	// and pauseRetry is when it is tried again. The projection's writes are paused
	// meanwhile.
	pauseTimeout = 3 * time.Second
	pauseRetry   = 10 * time.Second
	// inspectRetry is when a collection and its layout are inspected again: after documents
	// were found that a promotion would delete, or if the promotion has not begun.
	inspectRetry = time.Minute
	// completeStep is how long one step waits for the layout of the new collection to be
	// completed.
	completeStep = time.Second
	// headStart is how long the pods have to serve a new generation before it is built.
	headStart = 10 * time.Second
	// lost is how long the new collection may be missing before the build fails.
	lost = 10 * time.Second
	// linger is the time after which garbage is removed for the second time and unknown
	// shadow collections are dropped.
	linger = time.Hour
)

// CoordinatorOptions make a [Coordinator].
type CoordinatorOptions struct {
	// Pod is this pod's name in the registry.
	Pod     string
	Catalog Entries
	Pods    Pods
	Jobs    Jobs
	// Sample is the share of the aggregates that a verification compares.
	Sample      float64
	Collections Collections
	Data        Data
	Logger      zerolog.Logger
}

// Coordinator drives the builds that no other pod drives. Make it with [NewCoordinator].
type Coordinator struct {
	CoordinatorOptions
	// held are the leases of this pod, by projection.
	held map[string]*hold
	// seen are unknown shadow collections, with the times when they were first seen. The
	// empty name has the time of the last search.
	seen map[string]time.Time
	// failing are the projections whose last step failed, with the time of the next
	// attempt.
	failing map[string]time.Time
	// unread limits the lines about retries.
	unread obs.Repeats
	// completions copy layouts.
	completions sync.WaitGroup
}

// hold is a lease on a projection.
type hold struct {
	epoch   int64
	renewed time.Time
	// pausing is the token of the last pause that this pod has seen under this lease. paused is
	// when it saw it first.
	pausing string
	paused  time.Time
	// retry is when the next promotion may begin.
	retry time.Time
	// inspection is that of the collection that the next promotion replaces; nil if none is
	// running. found is the result of the last one that found no document of an
	// application, and inspected is when that ended. allowed is how many archived read models
	// an operator had allowed when it began: events may be back before more are allowed.
	inspection Inspection
	found      Inspected
	inspected  time.Time
	allowed    int64
	// completing ends with the result of copying the live collection's layout to the new
	// one, and is nil if that does not run. completed is when the last copy began, and zero
	// if it failed.
	completing chan error
	completed  time.Time
	// prepared is when pods could first serve the generation.
	prepared time.Time
	// gone is when the collection of the build was first found missing.
	gone time.Time
	// ended is the failed generation whose jobs are cancelled.
	ended int64
}

// NewCoordinator makes a coordinator.
func NewCoordinator(o CoordinatorOptions) *Coordinator {
	return &Coordinator{CoordinatorOptions: o, held: map[string]*hold{}, seen: map[string]time.Time{}, failing: map[string]time.Time{}}
}

// Run drives builds until ctx ends, and then releases its leases. Errors are logged and
// retried.
func (c *Coordinator) Run(ctx context.Context) error {
	defer c.completions.Wait()
	for {
		pause := c.round(ctx)
		select {
		case <-ctx.Done():
			c.release(context.WithoutCancel(ctx))
			return nil
		case <-time.After(pause):
		}
	}
}

func (c *Coordinator) release(ctx context.Context) {
	ctx, cancel := mongox.Timeout(ctx, time.Second)
	defer cancel()
	for name, h := range c.held {
		if err := c.Catalog.Release(ctx, name, h.epoch); err != nil && !errors.Is(err, ErrNotCoordinator) {
			c.Logger.Debug().Err(err).Str("projection", name).Msg("lease not released; it expires")
			return
		}
	}
}

// round makes a step of each build that this pod may drive, and returns the time to the
// next round.
func (c *Coordinator) round(ctx context.Context) time.Duration {
	entries, err := c.Catalog.List(ctx)
	if err != nil {
		if ctx.Err() == nil {
			c.unread.Warn(&c.Logger).Err(err).Msg("catalog not read; retrying")
		}
		return tick
	}
	pause := tick
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if !work(entries[name]) || time.Now().Before(c.failing[name]) {
			continue
		}
		next, err := c.drive(ctx, entries[name])
		switch {
		case errors.Is(err, ErrNotCoordinator), errors.Is(err, ErrConflict):
			// Another pod was faster: the next round reads the catalog again.
		case err != nil:
			c.failing[name] = time.Now().Add(tick)
			c.warn(ctx, err, name, "step of the rebuild failed; retrying")
		}
		pause = min(pause, next)
	}
	c.dropUnknown(ctx, entries)
	return pause
}

func (c *Coordinator) warn(ctx context.Context, err error, projection, message string) {
	if ctx.Err() == nil {
		c.Logger.Warn().Err(err).Str("projection", projection).Msg(message)
	}
}

// work reports whether an entry needs a coordinator.
func work(e *Entry) bool { return e.Building != nil || len(e.Garbage) > 0 }

// drive makes one step of a projection under this pod's lease, and returns the time to
// the next one.
func (c *Coordinator) drive(ctx context.Context, of *Entry) (time.Duration, error) {
	e, err := c.coordinate(ctx, of)
	if err != nil || e == nil {
		return tick, err
	}
	s := &step{Coordinator: c, hold: c.held[e.Name], entry: e}
	if e.Building != nil {
		if err := s.build(ctx); err != nil {
			return tick, s.show(ctx, err)
		}
	}
	more, err := s.collect(ctx)
	switch b := s.entry.Building; {
	case err != nil:
		return tick, err
	case more, s.entry.Revision != e.Revision, b != nil && b.State == Promoting:
		return busy, nil
	case b != nil:
		return watch, nil
	}
	return tick, nil
}

// coordinate takes or renews the lease on a projection, and returns its entry; nil if
// another pod has the lease.
func (c *Coordinator) coordinate(ctx context.Context, e *Entry) (*Entry, error) {
	h := c.held[e.Name]
	if h != nil && e.Coordinator.Epoch != h.epoch {
		c.Logger.Warn().Str("projection", e.Name).Str("coordinator", e.Coordinator.Pod).Msg("another pod coordinates the rebuild now")
		delete(c.held, e.Name)
		h = nil
	}
	if h == nil {
		// The server decides about the other pod's lease. Until it can have ended, a
		// request is unnecessary.
		if e.Coordinator.Pod != c.Pod && time.Until(e.Coordinator.Until) > 0 && time.Until(e.Coordinator.Until) <= coordination {
			return nil, nil
		}
		taken, err := c.Catalog.Coordinate(ctx, e.Name, c.Pod, coordination)
		if err != nil {
			return nil, err
		}
		c.held[e.Name] = &hold{epoch: taken.Coordinator.Epoch, renewed: time.Now()}
		return taken, nil
	}
	if time.Since(h.renewed) < renewal {
		return e, nil
	}
	now := time.Now()
	if err := c.Catalog.Renew(ctx, e.Name, h.epoch, coordination); err != nil {
		if errors.Is(err, ErrNotCoordinator) {
			delete(c.held, e.Name)
		}
		return nil, err
	}
	h.renewed = now
	return e, nil
}

// step is one step of one projection.
type step struct {
	*Coordinator
	hold *hold
	// entry is the catalog entry of the projection.
	entry *Entry
}

func (s *step) author() Author { return Author{Who: s.Pod, At: time.Now()} }

// log returns a logger with the fields of the building generation.
func (s *step) log() *zerolog.Logger {
	b := s.entry.Building
	logger := s.Logger.With().Str("projection", s.entry.Name).Int64("generation", b.Generation).Str("hash", b.Hash).Logger()
	return &logger
}

// change changes the building generation by do and writes it.
func (s *step) change(ctx context.Context, do func(b *Build)) error {
	next := *s.entry
	building := *s.entry.Building
	next.Building = &building
	do(&building)
	return s.write(ctx, &next)
}

func (s *step) write(ctx context.Context, next *Entry) error {
	stored, err := s.Catalog.WriteAs(ctx, s.hold.epoch, s.entry, next)
	if err != nil {
		return err
	}
	s.entry = stored
	return nil
}

// enter moves the building generation to another state.
func (s *step) enter(ctx context.Context, state State, do func(b *Build)) error {
	from := s.entry.Building.State
	err := s.change(ctx, func(b *Build) {
		b.State, b.Reason = state, ""
		if do != nil {
			do(b)
		}
	})
	if err == nil {
		s.log().Info().Str("from", string(from)).Str("to", string(state)).Str("reason", s.entry.Building.Reason).Msg("rebuild changed its state")
	}
	return err
}

// wait records in the catalog what the build waits for.
func (s *step) wait(ctx context.Context, reason string) error {
	if s.entry.Building.Reason == reason {
		return nil
	}
	if err := s.change(ctx, func(b *Build) { b.Reason = reason }); err != nil {
		return err
	}
	s.log().Info().Str("state", string(s.entry.Building.State)).Str("reason", reason).Msg("rebuild waits")
	return nil
}

// show stores an error that needs an operator in the catalog, such as a missing right of
// the MongoDB user, because an operator does not read the log of every pod. A collection
// that transactions hold is transient, but may need an operator too.
func (s *step) show(ctx context.Context, err error) error {
	transient := mongox.Transient(err) && !errors.Is(err, mongox.ErrLocked)
	if ctx.Err() != nil || errors.Is(err, ErrConflict) || errors.Is(err, ErrNotCoordinator) || transient {
		return err
	}
	return errors.Join(err, s.wait(ctx, "a step fails and is retried: "+err.Error()))
}

// fail ends the build.
func (s *step) fail(ctx context.Context, reason string) error {
	s.log().Error().Str("state", string(s.entry.Building.State)).Str("reason", reason).Msg("rebuild failed; the live generation is untouched")
	return s.write(ctx, Fail(s.entry, reason, s.author()))
}

// run runs a job of the building generation. id is the job's id in the entry, empty if it
// is not created yet, and set stores it. params are the worker's. The result is nil until the
// job is done or the build has failed.
func (s *step) run(ctx context.Context, kind job.Kind, round int, id string, params any, set func(b *Build, id string)) (*job.Job, error) {
	b := s.entry.Building
	if id == "" {
		created := job.Job{ID: s.jobID(kind, round), Kind: kind, Projection: s.entry.Name, Generation: b.Generation, Who: b.Who, Why: cmp.Or(b.Why, "rebuild")}
		if params != nil {
			var err error
			if created.Params, err = bson.Marshal(params); err != nil {
				return nil, fmt.Errorf("encode the parameters of job %s: %w", created.ID, err)
			}
		}
		if _, err := s.Jobs.Create(ctx, created); err != nil && !errors.Is(err, job.ErrExists) {
			return nil, err
		}
		return nil, s.change(ctx, func(b *Build) { set(b, created.ID) })
	}
	found, err := s.Jobs.Get(ctx, id)
	switch {
	case errors.Is(err, job.ErrNotFound):
		return nil, s.fail(ctx, fmt.Sprintf("job %s: the job was deleted", id))
	case err != nil:
		return nil, err
	case found.State == job.Failed || found.State == job.Cancelled:
		return nil, s.fail(ctx, fmt.Sprintf("job %s: %s", id, cmp.Or(found.Reason, "failed")))
	case found.State == job.Paused:
		return nil, s.wait(ctx, fmt.Sprintf("job %s is paused: resume it with projector jobs resume %s", id, id))
	case found.State != job.Done:
		return nil, s.wait(ctx, found.Reason)
	}
	return &found, nil
}

// jobID returns the id of a job. It is always the same for the same work, so that a
// successor finds the job of a coordinator that was killed after creating it.
func (s *step) jobID(kind job.Kind, round int) string {
	return fmt.Sprintf("%s.%d.%s-%d", s.entry.Name, s.entry.Building.Generation, kind, round)
}
