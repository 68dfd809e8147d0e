package drain

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// settlesInFlight bounds the settlements of a session that wait for the broker's answer.
// Each takes a round trip and a goroutine, because neither receiver can settle several
// messages in one call.
const settlesInFlight = 64

// settlesPending bounds the unfinished settlements of a session: those in flight and
// those that wait behind them. At the bound, the session waits.
const settlesPending = 256

// maxDeadLetterText bounds reason and description in bytes. Service Bus allows 4,096
// characters for each.
const maxDeadLetterText = 1024

// settler settles the messages of a session, many at once and in any order, because their
// effects are already durable.
type settler struct {
	receiver Receiver
	workers  *poll.Pool
	// pending has one element for each unfinished settlement.
	pending chan struct{}
	running sync.WaitGroup
	// left is set after a settlement has failed: the broker keeps the message until
	// the session is released.
	left    atomic.Bool
	lost    context.CancelCauseFunc
	metrics *metrics
	log     zerolog.Logger

	mu sync.Mutex
	// waiting are the settlements that no worker has started. inFlight counts the
	// workers.
	waiting  []settling
	inFlight int
	// short bounds the settlements that begin until renew.
	short context.Context //nolint:containedctx // a context for each message costs four allocations
	renew time.Time
	// release frees short.
	release context.CancelFunc
}

func newSettler(r Receiver, w *poll.Pool, lost context.CancelCauseFunc, m *metrics, log zerolog.Logger) *settler {
	return &settler{receiver: r, workers: w, pending: make(chan struct{}, settlesPending), lost: lost, metrics: m, log: log, release: func() {}}
}

// settling is the settlement of one message.
type settling struct {
	message *azservicebus.ReceivedMessage
	// reason dead-letters the message; nil completes it.
	reason *azservicebus.DeadLetterOptions
}

// settle starts the settlement of a delivery and its duplicates: it dead-letters a message
// that is not an event, and completes all others. It waits while settlesPending others are
// unfinished, and does nothing after the work has ended.
func (s *settler) settle(work context.Context, d *Delivery) {
	var reason *azservicebus.DeadLetterOptions
	if d.invalid != nil {
		name, description := ReasonInvalidMessageFormat, clip(d.invalid.Error())
		reason = &azservicebus.DeadLetterOptions{Reason: &name, ErrorDescription: &description}
	}
	s.start(work, settling{d.message, reason})
	for _, duplicate := range d.duplicates {
		s.start(work, settling{duplicate.message, nil})
	}
}

// start queues a settlement, and starts a worker if fewer than settlesInFlight run.
func (s *settler) start(work context.Context, t settling) {
	select {
	case s.pending <- struct{}{}:
	case <-work.Done():
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, t)
	if s.inFlight == settlesInFlight {
		return
	}
	s.inFlight++
	s.running.Add(1)
	s.workers.Do(func() {
		defer s.running.Done()
		for {
			t, ok := s.next()
			if !ok {
				return
			}
			s.run(work, t)
			<-s.pending
		}
	})
}

// next returns the settlement that has waited longest. If none waits, the worker ends.
func (s *settler) next() (settling, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		s.waiting = nil
		s.inFlight--
		return settling{}, false
	}
	t := s.waiting[0]
	s.waiting[0] = settling{}
	s.waiting = s.waiting[1:]
	return t, true
}

// run settles a message. The receiver of package sessions cannot repeat a settlement. So
// after a failure the broker keeps the message until the session is released, and then
// delivers it again as a duplicate. The session ends as soon as it has nothing else to do.
func (s *settler) run(work context.Context, t settling) {
	if work.Err() != nil {
		return
	}
	var err error
	if ctx := s.bounded(work); t.reason != nil {
		err = s.receiver.DeadLetterMessage(ctx, t.message, t.reason)
	} else {
		err = s.receiver.CompleteMessage(ctx, t.message, nil)
	}
	class := sbus.Classify(err)
	s.metrics.settlements.WithLabelValues(t.operation(), resultOf(class)).Inc()
	switch class {
	case sbus.ClassNone:
	case sbus.ClassLockLost, sbus.ClassConnectionLost, sbus.ClassStopped:
		s.lost(fmt.Errorf("%w: settle a message: %w", ErrLockLost, sbus.Readable(err)))
	default:
		if class == sbus.ClassBusy {
			_ = poll.Wait(work, busyWait) // Otherwise the released session is accepted again at once.
		}
		s.log.Debug().Err(sbus.Readable(err)).Str("operation", t.operation()).Str("messageId", t.message.MessageID).Msg("message not settled; it will be delivered again as a duplicate")
		s.left.Store(true)
	}
}

// bounded returns a context that ends with the work, or after three quarters of settleTimeout to all
// of it. Settlements share it.
func (s *settler) bounded(work context.Context) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); !now.Before(s.renew) {
		s.renew = now.Add(settleTimeout / 4)
		s.short, s.release = context.WithTimeout(work, settleTimeout) // others still use the former one, which ends by itself
	}
	return s.short
}

// operation is the label of the settlement in metrics.
func (t settling) operation() string {
	if t.reason != nil {
		return operationDeadLetter
	}
	return operationComplete
}

// wait waits until all workers have ended.
func (s *settler) wait() {
	s.running.Wait()
	s.release()
}

// clip truncates a text for the dead-letter queue.
func clip(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxDeadLetterText)], "")
}
