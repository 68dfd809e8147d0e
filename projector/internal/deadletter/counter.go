package deadletter

import (
	"context"
	"slices"
	"time"

	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// maxCounted is the largest number of messages that is counted.
const maxCounted = 250

// Counter counts dead letters. Make it with [New].
type Counter struct {
	*sbus.Counter[Queue, map[string]int]
}

// New makes a counter and registers its metrics. It makes no request.
func New(o Options) *Counter {
	m := &metrics{reasons: append(slices.Clone(o.Reasons), reasonOther)}
	m.counter = &Counter{sbus.NewCounter(sbus.Counting[Queue, map[string]int]{
		Dial: o.Dial, Interval: o.Interval, FailedWait: time.Minute, Logger: o.Logger,
		Count: func(ctx context.Context, q Queue) (map[string]int, error) {
			messages := make(map[string]int)
			return messages, pages(ctx, q, maxCounted, maxBytes, func(one *Message) { messages[m.label(one.Reason)]++ })
		},
		What: "dead letters", Until: "penstock_projector_dead_letters is absent until then",
	})}
	if o.Registerer != nil {
		o.Registerer.MustRegister(m)
	}
	return m.counter
}

// Messages returns the last count by reason, which the caller must not change; nil if it is
// stale.
func (c *Counter) Messages() map[string]int {
	if messages, _, fresh := c.Last(); fresh {
		return messages
	}
	return nil
}
