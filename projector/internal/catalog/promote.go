package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// mayRename fails if the user may not rename collections. A promotion that has begun to rename
// cannot be cancelled, so a refusal there would leave the projection's writes paused. mayRename
// tries to rename a collection that does not exist: epochs begin at 1.
func (s *step) mayRename(ctx context.Context) (waits bool, err error) {
	shadow := s.entry.Building.Shadow
	err = s.Collections.Rename(ctx, PromotionName(shadow, 0), PromotionName(shadow, s.hold.epoch), false)
	if mongox.AccessRefused(err) {
		err = fmt.Errorf("%w; grant the user readWrite on the database of the read models", err)
	}
	return false, err
}

// promote renames the new collection to the readers' name, after every alive pod has
// paused the projection's writes.
func (s *step) promote(ctx context.Context) error {
	if ready, err := s.paused(ctx); err != nil || !ready {
		return err
	}
	b := s.entry.Building
	promoted, err := s.rename(ctx)
	switch {
	case mongox.HasCode(err, mongox.CodeInvalidNamespace):
		// It will never succeed, and the writes must not stay paused.
		return s.fail(ctx, err.Error())
	case err != nil || !promoted:
		return err
	}
	log := s.log()
	if err := s.write(ctx, Promote(s.entry, s.author())); err != nil {
		return err
	}
	log.Info().Str("collection", b.Collection).Dur("took", time.Since(b.StartedAt)).Msg("generation is live")
	return nil
}

// paused reports whether the collection may be renamed: every alive pod has paused. It withdraws
// the promotion if that is not so in time.
func (s *step) paused(ctx context.Context) (bool, error) {
	b := s.entry.Building
	if s.hold.pausing != b.Pause {
		s.hold.pausing, s.hold.paused = b.Pause, time.Now()
	}
	running, err := s.notPaused(ctx)
	if err != nil || b.Renaming {
		return len(running) == 0, err
	}
	at, err := s.Collections.Where(ctx, b.UUID)
	late := time.Since(s.hold.paused) >= pauseTimeout
	switch {
	case err != nil:
		return false, err
	case at != b.Shadow && at != "":
		// A coordinator of an earlier version has begun to rename, and has not recorded that.
		return false, s.change(ctx, func(b *Build) { b.Renaming = true })
	case len(running) > 0 && late:
		return false, s.withdraw(ctx, "pods that did not pause in time: "+strings.Join(running, ", "))
	case len(running) > 0:
		return false, nil
	}
	return true, s.change(ctx, func(b *Build) { b.Renaming = true })
}

// notPaused names the alive pods that may still write the projection.
func (s *step) notPaused(ctx context.Context) ([]string, error) {
	want := Pausing{Projection: s.entry.Name, Token: s.entry.Building.Pause}
	return s.lacking(ctx, func(r Registration) bool { return slices.Contains(r.Paused, want) })
}

// withdraw ends the pause without the promotion, which is tried again later.
func (s *step) withdraw(ctx context.Context, why string) error {
	s.hold.retry, s.hold.inspected, s.hold.completed = time.Now().Add(pauseRetry), time.Time{}, time.Time{}
	return s.enter(ctx, Verifying, func(b *Build) { b.Pause, b.Reason = "", why })
}

// rename moves the new collection from its present name to this coordinator's own name, and
// from there to the readers'. It reports whether the collection has the readers' name.
func (s *step) rename(ctx context.Context) (bool, error) {
	b := s.entry.Building
	own := PromotionName(b.Shadow, s.hold.epoch)
	at, err := s.Collections.Where(ctx, b.UUID)
	switch {
	case err != nil:
		return false, err
	case at == b.Collection:
		return true, nil
	case at == "":
		return false, s.missing(ctx)
	case at != own:
		if err := s.Collections.Rename(ctx, at, own, false); err != nil {
			return false, err
		}
		// If this coordinator was suspended before the rename, its successor may have
		// renamed the collection already, and a suspended pod may have created a new one
		// under the old name. Then this coordinator has renamed the wrong collection.
		// Only this coordinator uses the own name, so the collection that has it now
		// keeps it until a successor renames it.
		now, err := s.Collections.Where(ctx, b.UUID)
		if err != nil {
			return false, err
		}
		if now != own {
			return false, s.renounce(ctx)
		}
	}
	s.hold.gone = time.Time{}
	return false, s.Collections.Rename(ctx, own, b.Collection, true)
}

// missing fails the build if its collection cannot be found for too long: somebody has dropped it,
// or has restored one of the databases to an earlier time.
func (s *step) missing(ctx context.Context) error {
	if s.hold.gone.IsZero() {
		s.hold.gone = time.Now()
	}
	if time.Since(s.hold.gone) < lost {
		return nil
	}
	return s.fail(ctx, fmt.Sprintf("collection %s, in which the generation was built, is gone: repeat the build with projector projections retry %s", s.entry.Building.Shadow, s.entry.Name))
}

// renounce ends this coordinator's lease. The next lease has another epoch, and so
// another own name.
func (s *step) renounce(ctx context.Context) error {
	delete(s.held, s.entry.Name)
	return s.Catalog.Release(ctx, s.entry.Name, s.hold.epoch)
}
