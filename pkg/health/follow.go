package health

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/poll"
)

// followInterval is the time between two looks of [Health.Follow]. A condition is logged
// when a second look finds it, so that a passing one leaves the log alone.
const followInterval = 2 * time.Second

// Follow logs the beginning and the end of each condition until ctx ends. changed gets each
// verdict; nil for none.
func (h *Health) Follow(ctx context.Context, logger zerolog.Logger, changed func(context.Context, Verdict)) {
	f := follower{logger: logger, seen: map[[2]string]Condition{}, logged: map[[2]string]Condition{}}
	poll.Every(ctx, followInterval, func() {
		v := h.Verdict()
		f.look(v)
		if changed != nil {
			changed(ctx, v)
		}
	})
}

// follower compares a verdict with the one before.
type follower struct {
	logger zerolog.Logger
	// seen are the conditions of the last look, logged those whose beginning was logged.
	seen, logged map[[2]string]Condition
}

func (f *follower) look(v Verdict) {
	now := make(map[[2]string]Condition, len(v.Conditions))
	for _, c := range v.Conditions {
		now[c.key()] = c
		_, before := f.seen[c.key()]
		if _, known := f.logged[c.key()]; before && !known {
			f.logged[c.key()] = c
			f.logger.Warn().Str("condition", c.title()).Str("verdict", string(v.State)).
				Str("detail", c.Text).Str("remedy", c.Remedy).Msg("health condition began")
		}
	}
	for key, c := range f.logged {
		if _, present := now[key]; !present {
			delete(f.logged, key)
			f.logger.Info().Str("condition", c.title()).Str("verdict", string(v.State)).
				Stringer("lasted", time.Since(c.Since).Round(time.Second)).Msg("health condition ended")
		}
	}
	f.seen = now
}
