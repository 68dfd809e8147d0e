package deadletter

import (
	"context"
	"slices"
	"time"

	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// maxCounted is the largest number of messages that is counted.
const maxCounted = 250

// Count is the result of a count of dead letters.
type Count struct {
	// Messages are their numbers by reason; nil if they are not known.
	Messages map[string]int
	// Bounded says that the queue may have more.
	Bounded bool
}

// Counter counts dead letters. Make it with [New].
type Counter struct {
	*sbus.Counter[Queue, Count]
}

// New makes a counter and registers its metrics. It makes no request.
func New(o Options) *Counter {
	m := &metrics{reasons: append(slices.Clone(o.Reasons), reasonOther)}
	m.counter = &Counter{sbus.NewCounter(sbus.Counting[Queue, Count]{
		Dial: o.Dial, Interval: o.Interval, FailedWait: time.Minute, Logger: o.Logger,
		Count: func(ctx context.Context, q Queue) (Count, error) {
			messages := make(map[string]int)
			bounded, err := pages(ctx, q, maxCounted, maxBytes, func(one *Message) { messages[m.label(one.Reason)]++ })
			return Count{messages, bounded}, err
		},
		What: "dead letters", Until: "penstock_projector_dead_letters is absent until then",
	})}
	if o.Registerer != nil {
		o.Registerer.MustRegister(m)
	}
	return m.counter
}

// Fresh returns the last count, whose numbers the caller must not change; the zero value if it is
// stale.
func (c *Counter) Fresh() Count {
	if count, _, fresh := c.Last(); fresh {
		return count
	}
	return Count{}
}
