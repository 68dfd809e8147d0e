package health

import (
	"context"
	"time"
)

// Lasting wraps a source for [Health.Watch]: a condition counts after it has held for that
// long, so that what passes by itself alarms nobody.
func Lasting(d time.Duration, run func(context.Context) []Condition) func(context.Context) []Condition {
	since := map[[2]string]time.Time{}
	return func(ctx context.Context) []Condition {
		now := time.Now()
		before := since
		since = map[[2]string]time.Time{}
		var lasting []Condition
		for _, c := range run(ctx) {
			if c.Since.IsZero() {
				c.Since = now
				if known := before[c.key()]; !known.IsZero() {
					c.Since = known
				}
			}
			since[c.key()] = c.Since
			if now.Sub(c.Since) >= d {
				lasting = append(lasting, c)
			}
		}
		return lasting
	}
}
