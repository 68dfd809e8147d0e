package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/projector/internal/history"
	"github.com/penstock-cdc/penstock/projector/internal/job"
)

// verifyGrace is how long a read model may be behind the event store before a verification
// reports it. Events need that time to come over the topic.
const verifyGrace = 30 * time.Second

// build makes one step of the building generation.
func (s *step) build(ctx context.Context) error {
	b := s.entry.Building
	switch {
	case b.State == Failed:
		return s.endJobs(ctx)
	case !b.Prepared():
		return s.prepare(ctx)
	}
	if b.State != Promoting {
		// Jobs would fold into a collection of the same name that a write creates.
		if waits, err := s.present(ctx); err != nil || waits {
			return err
		}
	}
	switch b.State {
	case Building:
		return s.fold(ctx)
	case CatchingUp:
		return s.catchUp(ctx)
	case Verifying:
		return s.verify(ctx)
	case Promoting:
		return s.promote(ctx)
	default:
		return fmt.Errorf("generation %d of projection %s is in the unknown state %q: run the version of Penstock that wrote it", b.Generation, s.entry.Name, b.State)
	}
}

// endJobs cancels the jobs of a failed generation, once.
func (s *step) endJobs(ctx context.Context) error {
	b := s.entry.Building
	if s.ended {
		return nil
	}
	if err := s.cancel(ctx, b.Jobs, "the rebuild has failed"); err != nil {
		return err
	}
	s.ended = true
	return nil
}

func (s *step) cancel(ctx context.Context, jobs JobIDs, reason string) error {
	for _, id := range []string{jobs.Build, jobs.Sweep, jobs.Verify} {
		if id == "" {
			continue
		}
		// It is no error if the job has ended or does not exist.
		if _, err := s.Jobs.Cancel(ctx, id, reason); err != nil && !errors.Is(err, job.ErrNotFound) && !errors.Is(err, job.ErrState) {
			return err
		}
	}
	return nil
}

// prepare creates the shadow collection with the layout of the live one, or of an existing
// collection with the declared name.
func (s *step) prepare(ctx context.Context) error {
	b, like := s.entry.Building, s.like()
	uuid, err := s.Collections.Prepare(ctx, b.Shadow, like)
	if err != nil {
		return err
	}
	if err := s.change(ctx, func(b *Build) { b.UUID = uuid }); err != nil {
		return err
	}
	s.log().Info().Str("collection", b.Shadow).Str("like", like).Msg("collection created for a new generation")
	return nil
}

// like returns the collection whose layout the new one gets.
func (s *step) like() string {
	if s.entry.Live != nil {
		return s.entry.Live.Collection
	}
	return s.entry.Building.Collection
}

// fold starts the job that folds every aggregate from the event store.
func (s *step) fold(ctx context.Context) error {
	done, err := s.run(ctx, job.Build, 0, s.entry.Building.Jobs.Build, nil,
		func(b *Build, id string) { b.Jobs.Build = id })
	if err != nil || done == nil {
		return err
	}
	return s.enter(ctx, CatchingUp, nil)
}

// catchUp waits until every alive pod folds each event into the generation before it
// settles the event. Then it starts the job that folds the aggregates left behind until
// then. A pod that registers later serves the generation from its first event on.
func (s *step) catchUp(ctx context.Context) error {
	b := s.entry.Building
	if b.Jobs.Sweep == "" {
		behind, err := s.notServing(ctx)
		if err != nil {
			return err
		}
		if len(behind) > 0 {
			return s.wait(ctx, "pods that do not serve the generation yet: "+strings.Join(behind, ", "))
		}
	}
	done, err := s.run(ctx, job.Sweep, b.Round, b.Jobs.Sweep, nil,
		func(b *Build, id string) { b.Jobs.Sweep = id })
	if err != nil || done == nil {
		return err
	}
	return s.enter(ctx, Verifying, nextRound)
}

// nextRound clears the jobs of the last round.
func nextRound(b *Build) {
	b.Round++
	b.Jobs.Sweep, b.Jobs.Verify = "", ""
}

// notServing names the alive pods that settle events without the generation.
func (s *step) notServing(ctx context.Context) ([]string, error) {
	serves := func(serving Serving) bool {
		return serving.Projection == s.entry.Name && serving.Generation == s.entry.Building.Generation && !serving.Defers
	}
	alive, err := s.pods(ctx)
	return s.lacking(alive, func(r Registration) bool { return slices.ContainsFunc(r.Serves, serves) }), err
}

// lacking names the alive pods for which does is false.
func (s *step) lacking(alive []Registration, does func(Registration) bool) []string {
	var behind []string
	own := false
	for _, r := range alive {
		own = own || r.Pod == s.Pod
		if !does(r) {
			behind = append(behind, r.Pod)
		}
	}
	if !own {
		// A list without this pod is not valid: it may be empty because the registry was.
		behind = append(behind, s.Pod)
	}
	return behind
}

// verify starts the job that compares the new collection with the fold of its events, and
// repairs what is wrong. If something was, the collection is verified once more, and must be
// right then. While the topic does not deliver events, read models fall behind after each
// repair: that says nothing against the generation, so it is verified until they no longer do.
func (s *step) verify(ctx context.Context) error {
	b := s.entry.Building
	params := history.Params{Sample: s.Sample, Repair: true, GraceMillis: verifyGrace.Milliseconds()}
	done, err := s.run(ctx, job.Verify, b.Round, b.Jobs.Verify, params, func(b *Build, id string) { b.Jobs.Verify = id })
	if err != nil || done == nil {
		return err
	}
	findings, undelivered := history.Wrong(done.Counts), done.Counts[history.CountUndelivered]
	switch {
	case b.Repaired && findings > undelivered:
		return s.fail(ctx, fmt.Sprintf("%d read models differ from the fold of their events after a repair: see the findings of job %s", findings-undelivered, b.Jobs.Verify))
	case findings > 0:
		return s.enter(ctx, Verifying, func(b *Build) {
			nextRound(b)
			if b.Repaired {
				b.Reason = fmt.Sprintf("%d read models are behind the event store although they were repaired: is the publisher running, and does the topic deliver?", findings)
			}
			b.Repaired = true
		})
	}
	return s.proven(ctx, done.Counts[string(history.Parked)])
}

// proven begins the promotion of a generation that is right, unless parked aggregates prevent
// it. leftOut are the aggregates that the verification has left out, because they were parked.
func (s *step) proven(ctx context.Context, leftOut int64) error {
	b := s.entry.Building
	parked, why, err := s.parked(ctx)
	switch {
	case err != nil:
		return err
	case why != "" && leftOut == 0:
		return s.wait(ctx, why)
	case why != "":
		return s.heldBack(ctx, func(b *Build) *int64 { return &b.Parked }, parked, why)
	case (b.Parked > 0 || leftOut > b.Allowed.Parked) && s.entry.Live != nil:
		return s.verifyAgain(ctx)
	}
	behind, err := s.notServing(ctx)
	if err != nil {
		return err
	}
	if len(behind) > 0 {
		return s.enter(ctx, CatchingUp, nextRound)
	}
	if time.Now().Before(s.postponed) {
		return nil
	}
	for _, obstacle := range []func(context.Context) (waits bool, err error){s.mayRename, s.inspect, s.announce} {
		if waits, err := obstacle(ctx); err != nil || waits {
			return err
		}
	}
	if err := s.pause(ctx, true); err != nil {
		return err
	}
	return s.promote(ctx)
}

// parked returns how many aggregates are parked in the generation, and why that prevents its
// promotion: "" if it does not, as without a live generation.
func (s *step) parked(ctx context.Context) (n int64, why string, err error) {
	b := s.entry.Building
	if s.entry.Live == nil {
		return 0, "", nil
	}
	begun := time.Now()
	n, example, err := s.Data.Parked(ctx, s.entry.Name, b.Generation)
	if n > b.Allowed.Parked {
		// The count reads all their markers, and they can stay for days.
		s.retry = time.Now().Add(20 * time.Since(begun))
		why = fmt.Sprintf("the promotion waits for the aggregates that are parked in the new generation (%d), such as %s: see projector parked list, or allow them with projector projections rebuild %s --allow-parked %d", n, example, s.entry.Name, n)
	}
	return n, why, err
}

// heldBack records that n aggregates prevent the promotion, and why. When they no longer do,
// the generation is verified again.
func (s *step) heldBack(ctx context.Context, count func(b *Build) *int64, n int64, reason string) error {
	if *count(s.entry.Building) < n {
		if err := s.change(ctx, func(b *Build) { *count(b) = n }); err != nil {
			return err
		}
	}
	return s.wait(ctx, reason)
}

// verifyAgain verifies a generation again that was held back. Aggregates that were healed
// meanwhile were left out of the verification.
func (s *step) verifyAgain(ctx context.Context) error {
	return s.enter(ctx, Verifying, func(b *Build) {
		nextRound(b)
		b.Parked, b.Archived, b.Repaired = 0, 0, false
	})
}

// present fails the build unless the new collection still exists under its own name. The collection
// has the readers' name if the state database was restored to a time before the promotion.
func (s *step) present(ctx context.Context) (waits bool, err error) {
	b := s.entry.Building
	names, err := s.collections(ctx)
	if err != nil {
		return false, err
	}
	switch names[string(b.UUID.Data)] {
	case "":
		return true, s.gone(ctx)
	case b.Collection:
		return true, s.fail(ctx, fmt.Sprintf("collection %s, in which the generation is built, is what readers see already, so the catalog is older than the read models: repeat the build with projector projections rebuild %s", b.Shadow, s.entry.Name))
	}
	return false, nil
}

// gone fails the build because its collection cannot be found: somebody has dropped it, or has
// restored one of the databases to an earlier time.
func (s *step) gone(ctx context.Context) error {
	return s.fail(ctx, fmt.Sprintf("collection %s, in which the generation was built, is gone: repeat the build with projector projections rebuild %s", s.entry.Building.Shadow, s.entry.Name))
}

const (
	// checkStep is how long one step waits for a check.
	checkStep = 100 * time.Millisecond
	// checkLasts is how long the result of a check holds after its end. One that prevents the
	// promotion, perhaps for days, holds for at least foundLasts times as long as the inspection took.
	checkLasts = time.Minute
	foundLasts = 10
)

// check is the result of a check of what a promotion would destroy.
type check struct {
	ended time.Time
	took  time.Duration
	found Inspected
	err   error
}

// holds reports whether the result needs no other check yet. allowed is how many archived read
// models an operator allows.
func (c *check) holds(allowed int64) bool {
	lasts := checkLasts
	if c.found.Unmanaged != nil || c.found.Archived > allowed {
		lasts = max(lasts, foundLasts*c.took)
	}
	return time.Since(c.ended) < lasts
}

// inspect makes sure that the collection that the promotion replaces has only documents
// that the new generation has too: those of projectors, with events in the event store. It
// also gives the new collection what has changed in the layout of the live one since the build
// began. Both can take long, so they run beside the steps of other builds.
func (s *step) inspect(ctx context.Context) (waits bool, err error) {
	b := s.entry.Building
	if s.checking == nil && (!s.checked.holds(b.Allowed.Archived) || s.allowed != b.Allowed.Archived) {
		s.checking, s.allowed = make(chan check, 1), b.Allowed.Archived
		result, like := s.checking, s.like()
		s.checks.Go(func() {
			var c check
			begun := time.Now()
			c.found, c.err = s.Data.Inspect(ctx, b.Collection, true)
			c.took = time.Since(begun)
			if c.err == nil && c.found.Unmanaged == nil {
				_, c.err = s.Collections.Prepare(ctx, b.Shadow, like)
			}
			c.ended = time.Now()
			result <- c
		})
	}
	if s.checking != nil {
		select {
		case s.checked = <-s.checking:
			s.checking = nil
		case <-time.After(checkStep):
			return true, s.wait(ctx, fmt.Sprintf("collection %s is inspected, and its changed layout, such as its indexes, is copied to the new collection", s.like()))
		}
		if err := s.checked.err; err != nil {
			s.checked = check{}
			return true, err
		}
		if !s.checked.holds(b.Allowed.Archived) {
			return true, nil // The layout may have changed since.
		}
	}
	switch found := s.checked.found; {
	case found.Unmanaged != nil:
		return true, s.wait(ctx, found.Unmanaged.Error())
	case found.Archived > b.Allowed.Archived:
		return true, s.heldBack(ctx, func(b *Build) *int64 { return &b.Archived }, found.Archived, fmt.Sprintf("%d read models of collection %s have no events in the event store, such as %s, and the promotion would delete them: put their events back into the event store, or allow it with projector projections rebuild %s --allow-missing %d", found.Archived, b.Collection, found.Example, s.entry.Name, found.Archived))
	case b.Archived > 0:
		return true, s.verifyAgain(ctx)
	}
	return false, nil
}
