package term

import (
	"context"
	"time"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

const (
	// maxClosing and maxFlushing bound two of the last steps of a term, closing the
	// connections to the topic and the last save, when the term has time.
	maxClosing  = 5 * time.Second
	maxFlushing = 5 * time.Second
	// closingShare and flushingShare are shares of the remaining time, taken when the step
	// begins. The last step leaves some time to return before the process must exit.
	closingShare  = 0.5
	flushingShare = 0.8
)

// leadership is the part of [leader.Term] that a term's work needs.
type leadership interface {
	// Identity is the holder of the lease.
	Identity() string
	// Held ends when the lease can no longer be trusted.
	Held() context.Context
	// Remaining is how much time the work has to end. It is very long until the work must
	// end.
	Remaining() time.Duration
}

// endingWithin returns a context for a step at the end of a term. The context ends after
// bound, or after that share of the term's remaining time if that is less. The loss of the
// lease shortens the remaining time. The context has no deadline: see [mongox.Timeout].
func endingWithin(term leadership, bound time.Duration, share float64) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancelCause(context.Background())
	limit := func() time.Duration { return min(bound, time.Duration(share*float64(term.Remaining()))) }
	timer := time.AfterFunc(limit(), func() { end(mongox.ErrNoAnswer) })
	stop := context.AfterFunc(term.Held(), func() { timer.Reset(limit()) })
	return ctx, func() {
		stop()
		timer.Stop()
		end(nil)
	}
}
