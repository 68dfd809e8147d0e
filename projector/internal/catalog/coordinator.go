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

	"github.com/penstock-cdc/penstock/pkg/lease"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/projector/internal/job"
)

// Coordination is the part of [CoordinatorLease] that a coordinator uses.
type Coordination interface {
	Take(ctx context.Context, lasts time.Duration) (epoch int64, err error)
	Renew(ctx context.Context, epoch int64, lasts time.Duration) error
	Release(ctx context.Context, epoch int64) error
}

var _ Coordination = (*CoordinatorLease)(nil)

// Entries is the part of [Catalog] that a coordinator uses.
type Entries interface {
	List(ctx context.Context) (map[string]*Entry, error)
	Write(ctx context.Context, old, changed *Entry) (*Entry, error)
}

var _ Entries = (*Catalog)(nil)

// Jobs is the part of [job.Store] that a coordinator uses. Any number of pods work on the jobs.
type Jobs interface {
	Create(ctx context.Context, j job.Job) (job.Job, error)
	Get(ctx context.Context, id string) (job.Job, error)
	Cancel(ctx context.Context, id, reason string) (job.Job, error)
}

var _ Jobs = (*job.Store)(nil)

// Collections are the collections of the read models' database.
type Collections interface {
	// Prepare creates the shadow collection with the options, indexes and shard key of
	// the collection like, if that exists, and returns its UUID. An existing shadow
	// collection gets what has changed meanwhile. That can take long.
	Prepare(ctx context.Context, shadow, like string) (bson.Binary, error)
	// Names returns the names of all collections, by their UUIDs.
	Names(ctx context.Context) (map[string]string, error)
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

// Data are the read models, side watermarks and markers.
type Data interface {
	// Remove removes some side watermarks and markers of a generation, and reports
	// whether none is left.
	Remove(ctx context.Context, projection string, generation int64) (done bool, err error)
	// Parked counts the parked aggregates of a generation, and describes one of them.
	Parked(ctx context.Context, projection string, generation int64) (n int64, example string, err error)
	// Inspect searches a collection for documents that a promotion would drop and the new
	// generation does not have. That can take long, and longer if it also looks for archived
	// read models.
	Inspect(ctx context.Context, collection string, archived bool) (Inspected, error)
}

// Inspected is the result of [Data.Inspect].
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
	// leaseDuration is how long a coordinator may be silent, by the server's clock.
	leaseDuration = 10 * time.Second
	// tick is the interval at which a pod searches for work. watch is the interval at which
	// the coordinator reads the jobs of builds. busy is the wait before the next step if
	// there is one.
	tick  = 2 * time.Second
	watch = 500 * time.Millisecond
	busy  = 100 * time.Millisecond
	// linger is the time after which garbage is removed for the second time.
	linger = time.Hour
)

// CoordinatorOptions make a [Coordinator].
type CoordinatorOptions struct {
	// Pod is this pod's name in the registry.
	Pod     string
	Lease   Coordination
	Catalog Entries
	// Alive lists the pods that are alive.
	Alive func(ctx context.Context) ([]Registration, error)
	Jobs  Jobs
	// Sample is the share of the aggregates that a verification compares.
	Sample      float64
	Collections Collections
	Data        Data
	Logger      zerolog.Logger
}

// Coordinator drives the builds of a pipeline while its pod has the lease. Make it with
// [NewCoordinator].
type Coordinator struct {
	CoordinatorOptions
	// unread limits the lines about retries.
	unread obs.Repeats
}

// NewCoordinator makes a coordinator.
func NewCoordinator(o CoordinatorOptions) *Coordinator {
	return &Coordinator{CoordinatorOptions: o}
}

// errSilent ends the work of a coordinator that could not renew its lease.
var errSilent = errors.New("the lease of the coordinator was not renewed in time")

// Run drives builds, while this pod is the coordinator, until ctx ends. Errors are logged and
// retried.
func (c *Coordinator) Run(ctx context.Context) error {
	for {
		taken := time.Now()
		epoch, err := c.Lease.Take(ctx, leaseDuration)
		switch {
		case err == nil:
			c.serve(ctx, epoch, taken)
		case !errors.Is(err, ErrNotCoordinator) && ctx.Err() == nil:
			c.unread.Warn(&c.Logger).Err(err).Msg("coordination not taken; retrying")
		}
		if err := poll.Wait(ctx, tick); err != nil {
			return nil //nolint:nilerr // ctx has ended, which is how Run ends
		}
	}
}

// serve makes rounds until the lease or ctx ends, and releases the lease.
func (c *Coordinator) serve(ctx context.Context, epoch int64, taken time.Time) {
	c.Logger.Info().Int64("epoch", epoch).Msg("this pod coordinates the projections")
	cause := lease.Hold(ctx, lease.Options{
		Taken: taken, Lasts: leaseDuration,
		Renew:   func(ctx context.Context) error { return c.Lease.Renew(ctx, epoch, leaseDuration) },
		Final:   func(err error) bool { return errors.Is(err, ErrNotCoordinator) },
		Expired: errSilent,
		Retried: func(err error) {
			c.unread.Warn(&c.Logger).Err(err).Msg("lease of the coordinator not renewed; retrying")
		},
	}, func(ctx context.Context, _ *lease.Held) {
		t := &term{Coordinator: c, epoch: epoch, builds: map[string]*progress{}}
		for !t.leaving && poll.Wait(ctx, t.round(ctx)) == nil {
		}
		t.checks.Wait()
	})
	if cause != nil && ctx.Err() == nil {
		c.Logger.Warn().Err(cause).Int64("epoch", epoch).Msg("this pod coordinates the projections no longer")
		return
	}
	leaving, cancel := mongox.Timeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := c.Lease.Release(leaving, epoch); err != nil && !errors.Is(err, ErrNotCoordinator) {
		c.Logger.Debug().Err(err).Msg("lease of the coordinator not released; it expires")
	}
}

func (c *Coordinator) warn(ctx context.Context, err error, projection, message string) {
	if ctx.Err() == nil {
		c.Logger.Warn().Err(err).Str("projection", projection).Msg(message)
	}
}

// term is the time in which this pod is the coordinator.
type term struct {
	*Coordinator
	epoch int64
	// leaving ends the term after the present step, so that the next one has another epoch.
	leaving bool
	// builds has what this term knows of the builds, by projection.
	builds map[string]*progress
	// alive are the pods as of this round; nil if they were not read yet.
	alive []Registration
	// names are the collections as of this round, by their UUIDs; nil if they were not read yet.
	names map[string]string
	// postponed is the time before which no promotion begins, because a pod did not pause.
	postponed time.Time
	// checks are the goroutines that check what a promotion would destroy.
	checks sync.WaitGroup
}

// progress is what a term knows of a build.
type progress struct {
	generation int64
	// retry is when the next step may follow one that has failed.
	retry time.Time
	// begun is the token of the promotion that this term has begun, or has taken over.
	// withdrawable is set until another coordinator could have renamed the collection, or this
	// one begins to.
	begun        string
	withdrawable bool
	// announced is when this term announced the promotion.
	announced time.Time
	// checking ends with the result of a check, and is nil if none runs. checked is the last
	// result, and allowed how many archived read models an operator had allowed then: events may
	// be back before more are allowed.
	checking chan check
	checked  check
	allowed  int64
	// ended says that the jobs of the failed build are cancelled.
	ended bool
}

// round makes a step of each build, and returns the time to the next round. Each step of a round
// relies on the same lists of pods and of collections, which are newer than the catalog: a pod that
// starts later reads a newer catalog.
func (t *term) round(ctx context.Context) time.Duration {
	entries, err := t.Catalog.List(ctx)
	if err != nil {
		if ctx.Err() == nil {
			t.unread.Warn(&t.Logger).Err(err).Msg("catalog not read; retrying")
		}
		return tick
	}
	t.alive, t.names = nil, nil
	pause := tick
	order := Queue(entries)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		if !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	for _, name := range order {
		if ctx.Err() != nil || t.leaving {
			return tick
		}
		e := entries[name]
		if e.Building == nil && len(e.Garbage) == 0 {
			delete(t.builds, name)
			continue
		}
		p := t.of(e)
		if time.Now().Before(p.retry) {
			continue
		}
		next, err := t.drive(ctx, e, p)
		switch {
		case errors.Is(err, ErrConflict):
			// Another pod has changed the entry: the next round reads the catalog again.
		case err != nil:
			p.retry = time.Now().Add(tick)
			t.warn(ctx, err, name, "step of the rebuild failed; retrying")
		}
		pause = min(pause, next)
	}
	return pause
}

// of returns what this term knows of an entry's build.
func (t *term) of(e *Entry) *progress {
	number := int64(0)
	if e.Building != nil {
		number = e.Building.Generation
	}
	if p := t.builds[e.Name]; p != nil && p.generation == number {
		return p
	}
	p := &progress{generation: number}
	t.builds[e.Name] = p
	return p
}

// drive makes one step of a projection, and returns the time to the next one.
func (t *term) drive(ctx context.Context, e *Entry, p *progress) (time.Duration, error) {
	s := &step{term: t, progress: p, entry: e}
	if e.Building != nil {
		if err := s.build(ctx); err != nil {
			return tick, s.show(ctx, err)
		}
	}
	more, err := s.collect(ctx)
	switch b := s.entry.Building; {
	case err != nil:
		return tick, err
	case more, s.entry.Revision != e.Revision, b != nil && b.State == Promoting, p.checking != nil:
		return busy, nil
	case b != nil:
		return watch, nil
	}
	return tick, nil
}

// pods returns the alive pods as of this round.
func (t *term) pods(ctx context.Context) (alive []Registration, err error) {
	if t.alive == nil {
		t.alive, err = t.Alive(ctx)
	}
	return t.alive, err
}

// collections returns the names of the collections as of this round, by their UUIDs.
func (t *term) collections(ctx context.Context) (names map[string]string, err error) {
	if t.names == nil {
		t.names, err = t.Collections.Names(ctx)
	}
	return t.names, err
}

// step is one step of one projection.
type step struct {
	*term
	*progress
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
	stored, err := s.Catalog.Write(ctx, s.entry, next)
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
		b.State, b.Reason, b.Pause = state, "", ""
		if do != nil {
			do(b)
		}
	})
	if err == nil {
		s.log().Info().Str("from", string(from)).Str("to", string(state)).Str("reason", s.entry.Building.Reason).Msg("rebuild changed its state")
	}
	return err
}

// wait records in the catalog what the build waits for; nothing if reason is empty. It ends the
// announcement of a promotion that has waited for a while. Often aggregates are parked only for a
// moment, which must not delay the promotion by another announcement.
func (s *step) wait(ctx context.Context, reason string) error {
	pause := s.entry.Building.Pause
	if pause == announced && time.Since(s.announced) >= noticeLasts {
		pause = ""
	}
	if s.entry.Building.Reason == reason && s.entry.Building.Pause == pause {
		return nil
	}
	if err := s.change(ctx, func(b *Build) { b.Reason, b.Pause = reason, pause }); err != nil {
		return err
	}
	line := s.log().Info().Str("state", string(s.entry.Building.State))
	if reason == "" {
		line.Msg("rebuild continues")
		return nil
	}
	line.Str("reason", reason).Msg("rebuild waits")
	return nil
}

// show stores an error that needs an operator in the catalog, such as a missing right of
// the MongoDB user, because an operator does not read the log of every pod. A collection
// that transactions hold is transient, but may need an operator too.
func (s *step) show(ctx context.Context, err error) error {
	transient := mongox.Transient(err) && !errors.Is(err, mongox.ErrLocked)
	if ctx.Err() != nil || errors.Is(err, ErrConflict) || transient {
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
	case errors.Is(err, job.ErrNotFound) && kind == job.Verify:
		// While the generation is held back, other verifications of the projection push it out.
		return nil, s.verifyAgain(ctx)
	case errors.Is(err, job.ErrNotFound):
		return nil, s.fail(ctx, fmt.Sprintf("job %s: the job was deleted", id))
	case err != nil:
		return nil, err
	case found.State == job.Failed || found.State == job.Cancelled:
		return nil, s.fail(ctx, fmt.Sprintf("job %s: %s", id, cmp.Or(found.Reason, "failed")))
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
