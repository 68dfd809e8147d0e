package rebuild

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/projector/internal/generation"
)

// build makes one step of the building generation.
func (s *step) build(ctx context.Context) error {
	switch b := s.entry.Building; {
	case b.State == generation.Failed:
		return s.endJobs(ctx)
	case !b.Prepared():
		return s.prepare(ctx)
	case b.State == generation.Building:
		return s.fold(ctx)
	case b.State == generation.CatchingUp:
		return s.catchUp(ctx)
	case b.State == generation.Verifying:
		return s.verify(ctx)
	case b.State == generation.Promoting:
		return s.promote(ctx)
	default:
		return fmt.Errorf("generation %d of projection %s is in the unknown state %q: run the version of Penstock that wrote it", b.Generation, s.entry.Name, b.State)
	}
}

// endJobs cancels the jobs of a failed generation, once.
func (s *step) endJobs(ctx context.Context) error {
	b := s.entry.Building
	if s.hold.ended == b.Generation {
		return nil
	}
	if err := s.cancel(ctx, b.Jobs, "the rebuild has failed"); err != nil {
		return err
	}
	s.hold.ended = b.Generation
	return nil
}

func (s *step) cancel(ctx context.Context, jobs generation.Jobs, reason string) error {
	for _, id := range []string{jobs.Build, jobs.Sweep, jobs.Verify} {
		if id == "" {
			continue
		}
		if err := s.Jobs.Cancel(ctx, id, reason); err != nil {
			return err
		}
	}
	return nil
}

// prepare creates the shadow collection with the layout of the live one, or of an existing
// collection with the declared name.
func (s *step) prepare(ctx context.Context) error {
	b := s.entry.Building
	like := b.Collection
	if s.entry.Live != nil {
		like = s.entry.Live.Collection
	}
	uuid, err := s.Collections.Prepare(ctx, b.Shadow, like)
	if err != nil {
		return err
	}
	if err := s.change(ctx, func(b *generation.Build) { b.UUID = uuid }); err != nil {
		return err
	}
	s.log().Info().Str("collection", b.Shadow).Str("like", like).Msg("collection created for a new generation")
	return nil
}

// fold starts the job that folds every aggregate from the event store. Before it, the pods
// have headStart to begin with live writes, so that less is left to the sweep.
func (s *step) fold(ctx context.Context) error {
	if s.entry.Building.Jobs.Build == "" {
		behind, err := s.notServing(ctx, true)
		if err != nil {
			return err
		}
		if s.hold.prepared.IsZero() {
			s.hold.prepared = time.Now()
		}
		if len(behind) > 0 && time.Since(s.hold.prepared) < headStart {
			return nil
		}
	}
	done, err := s.run(ctx, s.entry.Building.Jobs.Build, JobSpec{ID: s.jobID(JobBuild, 0), Kind: JobBuild},
		func(b *generation.Build, id string) { b.Jobs.Build = id })
	if err != nil || done == nil {
		return err
	}
	return s.enter(ctx, generation.CatchingUp, nil)
}

// catchUp waits until every alive pod folds each event into the generation before it
// settles the event. Then it starts the job that folds the aggregates left behind until
// then. A pod that registers later serves the generation from its first event on.
func (s *step) catchUp(ctx context.Context) error {
	b := s.entry.Building
	if b.Jobs.Sweep == "" {
		behind, err := s.notServing(ctx, false)
		if err != nil {
			return err
		}
		if len(behind) > 0 {
			return s.wait(ctx, "pods that do not serve the generation yet: "+strings.Join(behind, ", "))
		}
	}
	done, err := s.run(ctx, b.Jobs.Sweep, JobSpec{ID: s.jobID(JobSweep, b.Round), Kind: JobSweep},
		func(b *generation.Build, id string) { b.Jobs.Sweep = id })
	if err != nil || done == nil {
		return err
	}
	return s.enter(ctx, generation.Verifying, nextRound)
}

// nextRound clears the jobs of the last round.
func nextRound(b *generation.Build) {
	b.Round++
	b.Jobs.Sweep, b.Jobs.Verify = "", ""
}

// notServing names the alive pods that settle events without the generation. If deferring
// is set, pods that defer events do not count as such.
func (s *step) notServing(ctx context.Context, deferring bool) ([]string, error) {
	serves := func(serving generation.Serving) bool {
		return serving.Projection == s.entry.Name && serving.Generation == s.entry.Building.Generation && (deferring || !serving.Defers)
	}
	return s.lacking(ctx, func(r generation.Registration) bool { return slices.ContainsFunc(r.Serves, serves) })
}

// lacking names the alive pods for which does is false.
func (s *step) lacking(ctx context.Context, does func(generation.Registration) bool) ([]string, error) {
	alive, err := s.Pods.Alive(ctx)
	if err != nil {
		return nil, err
	}
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
	return behind, nil
}

// verify starts the job that compares the new collection with the fold of its events, and
// repairs it once if something is wrong.
func (s *step) verify(ctx context.Context) error {
	b := s.entry.Building
	done, err := s.run(ctx, b.Jobs.Verify, JobSpec{ID: s.jobID(JobVerify, b.Round), Kind: JobVerify, Repair: b.Repairing},
		func(b *generation.Build, id string) { b.Jobs.Verify = id })
	if err != nil || done == nil {
		return err
	}
	switch {
	case b.Repairing:
		return s.enter(ctx, generation.Verifying, func(b *generation.Build) {
			nextRound(b)
			b.Repairing, b.Repaired = false, true
		})
	case done.Findings > 0 && b.Repaired:
		return s.fail(ctx, fmt.Sprintf("%d read models differ from the fold of their events after a repair: see the findings of job %s", done.Findings, b.Jobs.Verify))
	case done.Findings > 0:
		return s.enter(ctx, generation.Verifying, func(b *generation.Build) {
			nextRound(b)
			b.Repairing = true
		})
	}
	return s.proven(ctx)
}

// proven begins the promotion of a generation that is right, unless parked aggregates or
// another projection prevent it.
func (s *step) proven(ctx context.Context) error {
	b := s.entry.Building
	if s.entry.Live != nil {
		parked, example, err := s.Data.Parked(ctx, s.entry.Name, b.Generation)
		if err != nil {
			return err
		}
		if parked > b.AllowParked {
			return s.heldBack(ctx, parked, example)
		}
		if b.Parked > b.AllowParked {
			// These aggregates were healed after the verification, which had left them out.
			return s.enter(ctx, generation.Verifying, func(b *generation.Build) {
				nextRound(b)
				b.Parked, b.Repaired = 0, false
			})
		}
	}
	behind, err := s.notServing(ctx, false)
	if err != nil {
		return err
	}
	if len(behind) > 0 {
		return s.enter(ctx, generation.CatchingUp, nextRound)
	}
	if waits, err := s.takeOver(ctx); err != nil || waits {
		return err
	}
	if time.Now().Before(s.hold.retry) {
		return nil
	}
	token := fmt.Sprintf("%s.%d.%d", s.entry.Name, b.Generation, s.entry.Revision)
	if err := s.enter(ctx, generation.Promoting, func(b *generation.Build) { b.Pause = token }); err != nil {
		return err
	}
	s.hold.pausing, s.hold.paused = token, time.Now()
	return nil
}

// heldBack records that parked aggregates prevent the promotion.
func (s *step) heldBack(ctx context.Context, parked int64, example string) error {
	if s.entry.Building.Parked != parked {
		if err := s.change(ctx, func(b *generation.Build) { b.Parked = parked }); err != nil {
			return err
		}
	}
	return s.wait(ctx, fmt.Sprintf("%d parked aggregates of the new generation prevent its promotion, such as %s: see projector parked list, or allow them with projector projections rebuild %s --allow-parked %d", parked, example, s.entry.Name, parked))
}

// takeOver makes sure that no other projection has the readers' name. A retired projection
// releases it; for any other the operator must act first.
func (s *step) takeOver(ctx context.Context) (waits bool, err error) {
	b := s.entry.Building
	for name, other := range s.entries {
		if name == s.entry.Name || !other.Uses(b.Collection) {
			continue
		}
		live := other.Live != nil && other.Live.Collection == b.Collection
		if live && other.RetiredAt == nil {
			return true, s.wait(ctx, fmt.Sprintf("collection %s belongs to projection %s: remove that from the declarations, or give it another collection", b.Collection, name))
		}
		if _, err := s.Catalog.Write(ctx, other, generation.Yield(other, b.Collection, s.author())); err != nil {
			return true, err
		}
	}
	return false, nil
}
