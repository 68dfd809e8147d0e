package drain

import (
	"context"
	"errors"
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

// settleAttempts bounds the attempts of a settlement. If the last attempt fails, the
// broker keeps the message until the session is released, and then delivers it again as a
// duplicate. So the session ends as soon as it has nothing else to do.
const settleAttempts = 3

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
	// left is set after a settlement was abandoned: the broker keeps the message until
	// the session is released.
	left atomic.Bool
	// answered is when the broker last answered a settlement. silent is when a settlement
	// last timed out while the broker answered no other one either. Both are in
	// nanoseconds since 1970; 0 means never.
	answered, silent atomic.Int64
	lost             context.CancelCauseFunc
	metrics          *metrics
	log              zerolog.Logger

	mu sync.Mutex
	// waiting are the settlements that no worker has started. inFlight counts the
	// workers.
	waiting  []settling
	inFlight int
}

func newSettler(r Receiver, w *poll.Pool, lost context.CancelCauseFunc, m *metrics, log zerolog.Logger) *settler {
	return &settler{receiver: r, workers: w, pending: make(chan struct{}, settlesPending), lost: lost, metrics: m, log: log}
}

// settling is the settlement of one message.
type settling struct {
	*round
	message *azservicebus.ReceivedMessage
	// reason dead-letters the message; nil completes it.
	reason *azservicebus.DeadLetterOptions
}

// round settles deliveries whose events were finished at the same time. Their first
// attempts share a context, because a context for each message would cost as much as the
// rest of a settlement.
type round struct {
	*settler
	work, short context.Context //nolint:containedctx // of the settlements, and of their first attempts
	cancel      context.CancelFunc
	begun       time.Time
	// users counts the unfinished first attempts, and the caller until it calls end.
	users atomic.Int64
}

// begin starts a round. After its last settle, the caller must call end.
func (s *settler) begin(work context.Context) *round {
	r := &round{settler: s, work: work, begun: time.Now()}
	r.short, r.cancel = context.WithTimeout(work, settleTimeout)
	r.users.Add(1)
	return r
}

// end removes one user of the round. Without users, the shared context is cancelled.
func (r *round) end() {
	if r.users.Add(-1) == 0 {
		r.cancel()
	}
}

// settle starts the settlement of a delivery and its duplicates: it dead-letters a message
// that is not an event, and completes all others. It waits while settlesPending others are
// unfinished, and does nothing after the work has ended.
func (r *round) settle(d *Delivery) {
	var reason *azservicebus.DeadLetterOptions
	if d.invalid != nil {
		name, description := ReasonInvalidMessageFormat, clip(d.invalid.Error())
		reason = &azservicebus.DeadLetterOptions{Reason: &name, ErrorDescription: &description}
	}
	r.start(settling{r, d.message, reason})
	for _, duplicate := range d.duplicates {
		r.start(settling{r, duplicate.message, nil})
	}
}

// start queues a settlement, and starts a worker if fewer than settlesInFlight run.
func (s *settler) start(t settling) {
	select {
	case s.pending <- struct{}{}:
	case <-t.work.Done():
		return
	}
	t.users.Add(1)
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
			t.run()
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

// run makes the attempts of a settlement.
func (t settling) run() {
	err := t.first()
	for attempt := 1; t.work.Err() == nil; attempt++ {
		class := sbus.Classify(err)
		t.metrics.settlements.WithLabelValues(t.operation(), resultOf(class)).Inc()
		var pause time.Duration
		switch class {
		case sbus.ClassNone:
			return
		case sbus.ClassLockLost, sbus.ClassConnectionLost, sbus.ClassStopped:
			t.lost(fmt.Errorf("%w: settle a message: %w", ErrLockLost, err))
			return
		case sbus.ClassBusy:
			pause = busyWait + poll.After(100*time.Millisecond, time.Second, attempt)
		case sbus.ClassTransient:
			pause = poll.After(100*time.Millisecond, time.Second, attempt)
		default:
		}
		if pause == 0 || attempt == settleAttempts {
			t.log.Debug().Err(err).Str("operation", t.operation()).Str("messageId", t.message.MessageID).
				Msg("message not settled; it will be delivered again as a duplicate")
			t.left.Store(true)
			return
		}
		select {
		case <-time.After(pause):
		case <-t.work.Done():
			return
		}
		err = t.again()
	}
}

// first makes the first attempt. It uses the round's context, unless the settlement has
// waited behind others for more than a quarter of the timeout: then it gets a context
// with the full timeout. If the broker has been silent since the round began, the
// settlement is abandoned at once, because the waiting ones would time out one after the
// other.
func (t settling) first() error {
	defer t.end()
	switch {
	case time.Since(t.begun) <= settleTimeout/4:
		return t.attempt(t.short)
	case t.silent.Load() > t.begun.UnixNano():
		return context.DeadlineExceeded
	}
	return t.again()
}

// again makes an attempt with a context of its own.
func (t settling) again() error {
	short, cancel := context.WithTimeout(t.work, settleTimeout)
	defer cancel()
	return t.attempt(short)
}

func (t settling) attempt(ctx context.Context) (err error) {
	if t.reason != nil {
		err = t.receiver.DeadLetterMessage(ctx, t.message, t.reason)
	} else {
		err = t.receiver.CompleteMessage(ctx, t.message, nil)
	}
	now := time.Now()
	switch {
	case !errors.Is(err, context.DeadlineExceeded):
		t.answered.Store(now.UnixNano())
	case t.answered.Load() <= now.Add(-settleTimeout).UnixNano():
		t.silent.Store(now.UnixNano())
	}
	return err
}

// operation is the label of the settlement in metrics.
func (t settling) operation() string {
	if t.reason != nil {
		return operationDeadLetter
	}
	return operationComplete
}

// wait waits until all workers have ended.
func (s *settler) wait() { s.running.Wait() }

// clip truncates a text for the dead-letter queue.
func clip(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxDeadLetterText)], "")
}
