package catalog

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/obs"
)

const (
	// slowPoll is how often a pod reads the catalog, and fastPoll how often from the
	// announcement of a promotion to its end: a promotion pauses the projection's writes
	// until every pod has seen it.
	slowPoll = 2 * time.Second
	fastPoll = 100 * time.Millisecond
	// decideEvery is how often a pod compares its declarations with the catalog.
	decideEvery = slowPoll
	// pauseAttempt bounds the wait for the writes of a projection to pause; the next poll
	// tries again.
	pauseAttempt = time.Second
	// leaveTimeout bounds the end of the registration when the pod stops.
	leaveTimeout = 2 * time.Second
)

// Engine folds events into generations.
type Engine interface {
	// Set replaces the targets. After that, no event counts as done that was folded into
	// earlier targets only.
	Set(ctx context.Context, targets []Target) error
	// Pause stops the writes of a projection, and returns after those in flight have
	// ended.
	Pause(ctx context.Context, projection string) error
	// Continue ends the pause.
	Continue(projection string)
}

// FollowerOptions configure a [Follower].
type FollowerOptions struct {
	Pod, Pipeline string
	Catalog       *Catalog
	Registry      *Registry
	Engine        Engine
	// Declares are this pod's projections.
	Declares []Declared
	// Able returns the reason why this pod cannot fold events into a target; nil if it
	// can.
	Able func(Target) error
	// Empty reports whether the event store has no events.
	Empty func(ctx context.Context) (bool, error)
	// Used returns the highest generation number that the databases have of a declared
	// projection, before one of its generations begins in a collection that no projection of the
	// catalog uses; 0 for none. The error is final if the collection cannot hold read models.
	Used func(ctx context.Context, d Declared) (int64, error)
	// Registerer may be nil.
	Registerer prometheus.Registerer
	Logger     zerolog.Logger
}

// Follower sets the engine's targets as the catalog says, and changes the catalog as the
// pods' declarations require.
type Follower struct {
	FollowerOptions
	metrics *metrics
	// unfollowed, unrenewed and undecided limit the lines about retries.
	unfollowed, unrenewed, undecided obs.Repeats

	// set are the targets of the engine; known is set once they were set. paused holds
	// the tokens of paused projections.
	set    []Target
	known  bool
	paused map[string]string
	// unable are the targets that were already logged as impossible for this pod.
	unable map[Serving]bool
	// undeclared holds, for each projection that no alive pod declares, since when that
	// is so.
	undeclared map[string]time.Time
	// observed is when the registrations were last read for undeclared.
	observed time.Time
	decided  time.Time
	// givenUp are the hashes of the definitions that were already logged as such.
	givenUp map[string]string

	mu sync.Mutex
	// entries are the catalog's entries as of the last read.
	entries map[string]*Entry
}

// NewFollower makes a follower.
func NewFollower(o FollowerOptions) *Follower {
	return &Follower{
		FollowerOptions: o, metrics: newMetrics(o.Registerer),
		paused: map[string]string{}, unable: map[Serving]bool{}, undeclared: map[string]time.Time{}, givenUp: map[string]string{},
	}
}

// Start registers the pod, compares its declarations with the catalog, and sets the
// engine's targets for the first time.
func (f *Follower) Start(ctx context.Context) error {
	if err := f.Registry.Register(ctx); err != nil {
		return err
	}
	if err := f.Registry.Clean(ctx); err != nil {
		return err
	}
	var names []string
	for _, d := range f.Declares {
		names = append(names, d.Name)
	}
	if err := f.Catalog.Adopt(ctx, names); err != nil {
		return err
	}
	for {
		_, err := f.follow(ctx, true)
		if !errors.Is(err, ErrConflict) {
			return err
		}
	}
}

// Run follows the catalog and renews the registration until ctx ends. Then it removes the
// registration, so the pod must have settled its last event before ctx ends.
func (f *Follower) Run(ctx context.Context) error {
	var beating sync.WaitGroup
	beating.Go(func() { f.beat(ctx) })
	for {
		pause, err := f.follow(ctx, false)
		if err != nil && ctx.Err() == nil && !errors.Is(err, ErrConflict) {
			f.unfollowed.Warn(&f.Logger).Err(err).Msg("catalog of projections not followed; retrying")
		}
		select {
		case <-time.After(pause):
			continue
		case <-ctx.Done():
		}
		beating.Wait()
		leaving, cancel := mongox.Timeout(context.WithoutCancel(ctx), leaveTimeout)
		defer cancel()
		if err := f.Registry.Leave(leaving); err != nil {
			f.Logger.Debug().Err(err).Msg("registration not removed; it expires")
		}
		return nil
	}
}

// beat renews the registration in a goroutine of its own, because follow can wait for
// writes to pause.
func (f *Follower) beat(ctx context.Context) {
	tick := time.NewTicker(Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := f.Registry.Register(ctx); err != nil && ctx.Err() == nil {
			f.unrenewed.Warn(&f.Logger).Err(err).Msg("registration not renewed; retrying")
		}
	}
}

// Projections returns the catalog's entries by name, as of this pod's last read.
func (f *Follower) Projections() map[string]*Entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.entries)
}

// follow reads the catalog once and applies it. The result is the time until the next
// read.
func (f *Follower) follow(ctx context.Context, first bool) (time.Duration, error) {
	read := time.Now()
	entries, err := f.Catalog.List(ctx)
	if err != nil {
		return slowPoll, err
	}
	if first || time.Since(f.decided) >= decideEvery {
		if entries, err = f.decide(ctx, entries); err != nil {
			return fastPoll, err
		}
		f.decided = time.Now()
	}
	f.metrics.show(entries)
	f.mu.Lock()
	f.entries = maps.Clone(entries)
	f.mu.Unlock()
	// Pause before setting targets: a pod that starts during a promotion must not write.
	promoting := map[string]string{}
	for name, e := range entries {
		if b := e.Building; b != nil && b.State == Promoting {
			promoting[name] = b.Pause
		}
	}
	for name, token := range promoting {
		if err := f.pause(ctx, name, token); err != nil {
			return fastPoll, err
		}
	}
	if err := f.retarget(ctx, entries); err != nil {
		return fastPoll, err
	}
	for name := range f.paused {
		if _, still := promoting[name]; !still {
			f.Engine.Continue(name)
			delete(f.paused, name)
			f.Logger.Info().Str("projection", name).Msg("writes resumed after a promotion")
		}
	}
	if !f.Registry.Confirm(read) {
		return fastPoll, nil
	}
	return interval(entries), f.tell(ctx)
}

// interval returns the time until the next read of the catalog.
func interval(entries map[string]*Entry) time.Duration {
	for _, e := range entries {
		if b := e.Building; b != nil && (b.State == Promoting || b.State == Verifying && b.Pause != "") {
			return fastPoll
		}
	}
	return slowPoll
}

// notPaused is the token of a projection whose pause has begun and is not reached yet.
const notPaused = "not paused yet"

// pause pauses the writes of a projection that is being promoted.
func (f *Follower) pause(ctx context.Context, name, token string) error {
	if paused, ok := f.paused[name]; ok && paused == token {
		return nil
	}
	// A pause that is not reached in time lasts too, until the promotion ends.
	f.paused[name] = notPaused
	attempt, cancel := context.WithTimeout(ctx, pauseAttempt)
	defer cancel()
	if err := f.Engine.Pause(attempt, name); err != nil {
		return err
	}
	f.paused[name] = token
	f.Logger.Info().Str("projection", name).Str("token", token).Msg("writes paused for a promotion")
	return nil
}

// retarget sets the engine's targets to those of the catalog that this pod can serve, if
// they have changed.
func (f *Follower) retarget(ctx context.Context, entries map[string]*Entry) error {
	var able []Target
	for _, t := range Targets(entries) {
		serving := Serving{Projection: t.Projection, Generation: t.Generation}
		if err := f.Able(t); err != nil {
			if !f.unable[serving] {
				f.Logger.Warn().Err(err).Str("projection", t.Projection).Int64("generation", t.Generation).
					Msg("this pod cannot fold events into the generation; other pods or a later sweep do")
			}
			f.unable[serving] = true
			continue
		}
		able = append(able, t)
	}
	if f.known && slices.Equal(able, f.set) {
		return nil
	}
	if err := f.Engine.Set(ctx, able); err != nil {
		return err
	}
	before := f.set
	f.set, f.known = able, true
	for _, t := range able {
		if slices.Contains(before, t) {
			continue
		}
		f.Logger.Info().Str("projection", t.Projection).Int64("generation", t.Generation).Str("hash", t.Hash).
			Str("collection", t.Collection).Bool("building", t.Building).Bool("defers", t.Defers).Msg("serving a generation")
	}
	return nil
}

// tell registers the generations that this pod serves and the projections that it has
// paused, if they have changed.
func (f *Follower) tell(ctx context.Context) error {
	serves := make([]Serving, len(f.set))
	for i, t := range f.set {
		serves[i] = Serving{Projection: t.Projection, Generation: t.Generation, Defers: t.Defers}
	}
	var paused []Pausing
	for _, name := range slices.Sorted(maps.Keys(f.paused)) {
		paused = append(paused, Pausing{Projection: name, Token: f.paused[name]})
	}
	if !f.Registry.Set(serves, paused) {
		return nil
	}
	return f.Registry.Register(ctx)
}

// waits returns nil if err says that a registration of the pipeline cannot be read, and err
// otherwise. A running pod may have that registration, and what it declares is unknown. So
// this pod serves what the catalog says, and does not change the catalog until the record is
// corrected, is deleted or expires. [Registry.Alive] prevents promotions meanwhile.
func (f *Follower) waits(err error, what string) error {
	if !errors.As(err, new(*mongox.UnreadableError)) {
		return err
	}
	f.undecided.Warn(&f.Logger).Err(err).Msg(what)
	return nil
}

// decide compares the declarations of this pod and of the others with the catalog, and
// stores the changes that follow.
func (f *Follower) decide(ctx context.Context, entries map[string]*Entry) (map[string]*Entry, error) {
	alive, err := f.Registry.Alive(ctx)
	if err != nil {
		return entries, f.waits(err, "catalog of projections not changed until the registration can be read")
	}
	view := View{Pipeline: f.Pipeline, Entries: entries, Declares: f.Declares, Alive: alive, Used: map[string]int64{}}
	for _, d := range f.Declares {
		if e := entries[d.Name]; e != nil {
			f.reportGivenUp(e, d)
		} else if view.Empty, err = f.Empty(ctx); err != nil {
			return nil, err
		}
	}
	by := Author{Who: f.Pod, At: time.Now()}
	// Look at the databases only before a generation begins: that can take long.
	for _, c := range Decide(view, by) {
		if d := c.Declared; c.begins() && !InUse(entries, d.Collection) {
			if view.Used[d.Name], err = f.Used(ctx, d); err != nil {
				return nil, err
			}
		}
	}
	for _, c := range Decide(view, by) {
		if err := f.write(ctx, entries, c.Old, c.New); err != nil {
			return nil, err
		}
	}
	return entries, f.retire(ctx, entries, alive, by)
}

// reportGivenUp logs once that this pod's definition is not built. Nothing fails, so only
// the log says why.
func (f *Follower) reportGivenUp(e *Entry, d Declared) {
	if !e.HasGivenUp(d.Hash) {
		delete(f.givenUp, d.Name)
		return
	}
	if f.givenUp[d.Name] != d.Hash {
		f.Logger.Warn().Str("projection", d.Name).Str("hash", d.Hash).Str("who", e.GivenUp.Who).Str("why", e.GivenUp.Why).
			Msg("declared definition not built, because its build was cancelled; projector projections rebuild builds it")
	}
	f.givenUp[d.Name] = d.Hash
}

// write stores a change and keeps the result in entries.
func (f *Follower) write(ctx context.Context, entries map[string]*Entry, old, changed *Entry) error {
	stored, err := f.Catalog.Write(ctx, old, changed)
	if err != nil {
		return err
	}
	entries[stored.Name] = stored
	if n := len(stored.History); n > 0 {
		last := stored.History[n-1]
		f.Logger.Info().Str("projection", stored.Name).Int64("generation", last.Generation).Str("hash", last.Hash).Str("what", last.What).Msg("catalog of projections changed")
	}
	return nil
}

// retire retires the projections that no alive pod has declared for the length of a
// [Lease], in which a late registration could still be renewed.
//
// An absence counts only while this pod sees its own registration, and without a pause
// between two looks: while MongoDB is away, no pod can renew, so all registrations expire.
func (f *Follower) retire(ctx context.Context, entries map[string]*Entry, alive []Registration, by Author) error {
	if by.At.Sub(f.observed) > 2*Heartbeat || !slices.ContainsFunc(alive, func(r Registration) bool { return r.Pod == f.Pod }) {
		f.undeclared = nil
	}
	f.observed = by.At
	since := map[string]time.Time{}
	for _, name := range Undeclared(entries, alive) {
		since[name] = cmp.Or(f.undeclared[name], by.At)
		if by.At.Sub(since[name]) < Lease {
			continue
		}
		changed, err := Retire(entries[name], by)
		if err != nil {
			continue // The projection is being promoted: retire it afterwards.
		}
		if err := f.write(ctx, entries, entries[name], changed); err != nil {
			return err
		}
		delete(since, name)
	}
	f.undeclared = since
	return nil
}
