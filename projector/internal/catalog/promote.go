package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/poll"
)

const (
	// pauseTimeout is how long pods may take to pause before the promotion is withdrawn,
	// and pauseRetry is when the next one may begin. The projection's writes are paused
	// meanwhile.
	pauseTimeout = 3 * time.Second
	pauseRetry   = 10 * time.Second
	// notice is the least time from the announcement of a promotion to its begin. Every pod reads
	// the catalog within it. noticeLasts is how long the announcement of one that waits is kept.
	notice      = slowPoll + time.Second
	noticeLasts = time.Minute
	// pausing is how often the coordinator reads whether the pods have paused.
	pausing = 20 * time.Millisecond
	// renames bounds the attempts of one step to move a collection.
	renames = 4
)

// mayRename fails if the user may not rename collections. A promotion that has begun to rename
// cannot be cancelled, so a refusal there would leave the projection's writes paused. mayRename
// tries to rename a collection that does not exist: epochs begin at 1.
func (s *step) mayRename(ctx context.Context) (waits bool, err error) {
	shadow := s.entry.Building.Shadow
	err = s.Collections.Rename(ctx, PromotionName(shadow, 0), PromotionName(shadow, s.epoch), false)
	if mongox.AccessRefused(err) {
		err = fmt.Errorf("%w; grant the user readWrite on the database of the read models", err)
	}
	return false, err
}

// announced is the pause token of a promotion that begins soon.
const announced = "soon"

// announce makes the pods read the catalog often, so that the pause is short, and reports whether
// they still need time for that.
func (s *step) announce(ctx context.Context) (waits bool, err error) {
	if s.entry.Building.Pause == announced && !s.announced.IsZero() {
		return time.Since(s.announced) < notice, nil
	}
	err = s.change(ctx, func(b *Build) { b.Pause, b.Reason = announced, "" })
	s.announced = time.Now()
	return true, err
}

// pause begins a promotion, or takes over one that an earlier coordinator has begun. The token is
// this term's own, so no write of the earlier coordinator to the entry succeeds any more. It may
// still rename, so only a promotion that this term has begun can be withdrawn.
func (s *step) pause(ctx context.Context, begins bool) error {
	token := fmt.Sprintf("%s.%d.%d.%d", s.entry.Name, s.entry.Building.Generation, s.epoch, s.entry.Revision)
	if err := s.enter(ctx, Promoting, func(b *Build) { b.Pause = token }); err != nil {
		return err
	}
	s.begun, s.withdrawable = token, begins
	return nil
}

// promote waits until every alive pod has paused the projection's writes, renames the new
// collection to the readers' name, and writes the entry. All of this is one step, so that no pause
// lasts while other projections are promoted.
func (s *step) promote(ctx context.Context) error {
	if s.entry.Building.Pause != s.begun {
		if err := s.pause(ctx, false); err != nil {
			return err
		}
	}
	for begun := time.Now(); ; {
		running, err := s.notPaused(ctx)
		switch {
		case err != nil:
			return err
		case len(running) == 0:
			if waits, err := s.inspectAgain(ctx); waits || err != nil {
				return err
			}
			return s.replace(ctx)
		case time.Since(begun) < pauseTimeout:
			if err := poll.Wait(ctx, pausing); err != nil {
				return err
			}
			continue
		}
		why := "pods that did not pause in time: " + strings.Join(running, ", ")
		if !s.withdrawable {
			return s.wait(ctx, why)
		}
		s.postponed, s.checked = time.Now().Add(pauseRetry), check{}
		return s.enter(ctx, Verifying, func(b *Build) { b.Reason = why })
	}
}

// inspectAgain looks again for documents that no projector has written, if an earlier coordinator has
// begun the promotion: it may have inspected the collection long ago. The writes stay paused until
// somebody has moved them.
func (s *step) inspectAgain(ctx context.Context) (waits bool, err error) {
	b := s.entry.Building
	if s.withdrawable {
		return false, nil
	}
	if at, err := s.Collections.Where(ctx, b.UUID); err != nil || at == b.Collection {
		return false, err
	}
	found, err := s.Data.Inspect(ctx, b.Collection, false)
	if err != nil || found.Unmanaged == nil {
		return false, err
	}
	return true, s.wait(ctx, found.Unmanaged.Error())
}

// notPaused names the alive pods that may still write the projection.
func (s *step) notPaused(ctx context.Context) ([]string, error) {
	alive, err := s.Alive(ctx)
	want := Pausing{Projection: s.entry.Name, Token: s.entry.Building.Pause}
	return s.lacking(alive, func(r Registration) bool { return slices.Contains(r.Paused, want) }), err
}

// replace renames the new collection, and makes its generation the live one.
func (s *step) replace(ctx context.Context) error {
	b := s.entry.Building
	s.withdrawable = false
	promoted, err := false, error(nil)
	for i := 0; i < renames && !promoted && err == nil && !s.leaving && s.entry.Building.State == Promoting; i++ {
		promoted, err = s.rename(ctx)
	}
	switch {
	case mongox.HasCode(err, mongox.CodeInvalidNamespace, codeCommandFailed):
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

// rename moves the new collection from its present name to this coordinator's own name, and
// from there to the readers'. It reports whether the collection has the readers' name.
func (s *step) rename(ctx context.Context) (bool, error) {
	b := s.entry.Building
	own := PromotionName(b.Shadow, s.epoch)
	at, err := s.Collections.Where(ctx, b.UUID)
	switch {
	case err != nil:
		return false, err
	case at == b.Collection:
		return true, nil
	case at == "":
		return false, s.gone(ctx)
	case at != own:
		if err := s.Collections.Rename(ctx, at, own, false); err != nil {
			return false, err
		}
		// If this coordinator was suspended before the rename, its successor may have
		// renamed the collection already, and a suspended pod may have created a new one
		// under the old name. Then this coordinator has renamed the wrong collection.
		// Only this coordinator uses the own name, so the collection that has it now
		// keeps it until a successor renames it. The next term has another own name.
		now, err := s.Collections.Where(ctx, b.UUID)
		if err != nil {
			return false, err
		}
		if now != own {
			s.leaving = true
			return false, nil
		}
	}
	return false, s.Collections.Rename(ctx, own, b.Collection, true)
}
