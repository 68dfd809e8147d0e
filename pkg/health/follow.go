package health

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/poll"
)

// followInterval is the time between two looks of [Health.Follow]. A condition is logged
// when a second look finds it, so that a passing one leaves the log alone.
const followInterval = 2 * time.Second

// Follow logs the beginning and the end of each condition, and counts the conditions in the
// gauge, which has the labels condition and state, until ctx ends.
func (h *Health) Follow(ctx context.Context, logger zerolog.Logger, gauge *prometheus.GaugeVec) {
	f := follower{logger: logger, gauge: gauge, seen: map[[2]string]Condition{}, logged: map[[2]string]Condition{}, shown: map[[2]string]float64{}}
	poll.Every(ctx, followInterval, func() {
		v := h.Verdict()
		if ctx.Err() != nil {
			return // the process stops, so its stores are closed
		}
		f.log(v)
		f.show(v)
	})
}

// follower compares a verdict with the one before.
type follower struct {
	logger zerolog.Logger
	gauge  *prometheus.GaugeVec
	// seen are the conditions of the last look, logged those whose beginning was logged.
	seen, logged map[[2]string]Condition
	// shown are the values of the gauge, by its labels.
	shown map[[2]string]float64
}

func (f *follower) log(v Verdict) {
	now := make(map[[2]string]Condition, len(v.Conditions))
	for _, c := range v.Conditions {
		now[c.key()] = c
		_, before := f.seen[c.key()]
		if _, known := f.logged[c.key()]; before && !known {
			f.logged[c.key()] = c
			f.logger.Warn().Str("condition", c.Title()).Str("verdict", string(v.State)).
				Str("detail", c.Text).Str("remedy", c.Remedy).Msg("health condition began")
		}
	}
	for key, c := range f.logged {
		if _, present := now[key]; !present {
			delete(f.logged, key)
			f.logger.Info().Str("condition", c.Title()).Str("verdict", string(v.State)).
				Stringer("lasted", time.Since(c.Since).Round(time.Second)).Msg("health condition ended")
		}
	}
	f.seen = now
}

func (f *follower) show(v Verdict) {
	now := map[[2]string]float64{}
	for _, c := range v.Conditions {
		now[[2]string{c.Name, string(c.State)}]++
	}
	for labels := range f.shown {
		if now[labels] == 0 {
			f.gauge.DeleteLabelValues(labels[:]...)
		}
	}
	for labels, n := range now {
		f.gauge.WithLabelValues(labels[:]...).Set(n)
	}
	f.shown = now
}
