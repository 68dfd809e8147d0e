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

	"github.com/penstock-cdc/penstock/pkg/backoff"
	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// settlesAtOnce bounds the settlements that a session waits for at the same time.
// Each costs a round trip, and neither receiver has a call for several.
const settlesAtOnce = 256

// settleAttempts bounds how often a settlement is tried. The broker delivers a message
// again, as a duplicate, whose settlement was given up, once the session is released. So
// the session ends as soon as it has nothing else to do.
const settleAttempts = 3

// maxDeadLetterText bounds reason and description: Service Bus takes 4,096
// characters of each.
const maxDeadLetterText = 1024

// settler settles the messages of a session, many at once and in no order: all
// that is settled is durable already.
type settler struct {
	receiver Receiver
	slots    chan struct{}
	running  sync.WaitGroup
	// left says that a settlement was given up: the broker keeps the message until the
	// session is released.
	left    atomic.Bool
	lost    context.CancelCauseFunc
	metrics *metrics
	log     zerolog.Logger
}

func newSettler(r Receiver, lost context.CancelCauseFunc, m *metrics, log zerolog.Logger) *settler {
	return &settler{receiver: r, slots: make(chan struct{}, settlesAtOnce), lost: lost, metrics: m, log: log}
}

// round settles deliveries whose events were finished at the same time. They share the
// context of the first attempt: one for each message would cost as much as the rest of a
// settlement.
type round struct {
	*settler
	work, short context.Context //nolint:containedctx // of the settlements, and of their first attempts
	cancel      context.CancelFunc
	begun       time.Time
	// users are the first attempts that have not ended, and the caller.
	users atomic.Int64
}

// begin begins a round. The caller ends it with end after the last settle.
func (s *settler) begin(work context.Context) *round {
	r := &round{settler: s, work: work, begun: time.Now()}
	r.short, r.cancel = context.WithTimeout(work, settleTimeout)
	r.users.Add(1)
	return r
}

// end ends a use of the round.
func (r *round) end() {
	if r.users.Add(-1) == 0 {
		r.cancel()
	}
}

// settle starts to settle a delivery and its duplicates. It waits while too many are
// running, and does nothing once the work has ended.
func (r *round) settle(d *Delivery, v Verdict) {
	operation, call := operationComplete, r.complete
	if v.Outcome == Poison {
		operation, call = operationDeadLetter, r.deadLetter(v)
	}
	r.start(operation, d, call)
	for _, duplicate := range d.duplicates {
		r.start(operationComplete, duplicate, r.complete)
	}
}

type settleCall func(ctx context.Context, m *azservicebus.ReceivedMessage) error

func (s *settler) complete(ctx context.Context, m *azservicebus.ReceivedMessage) error {
	return s.receiver.CompleteMessage(ctx, m, nil)
}

func (s *settler) deadLetter(v Verdict) settleCall {
	reason, description := clip(v.Reason), ""
	if v.Err != nil {
		description = clip(v.Err.Error())
	}
	return func(ctx context.Context, m *azservicebus.ReceivedMessage) error {
		return s.receiver.DeadLetterMessage(ctx, m, &azservicebus.DeadLetterOptions{Reason: &reason, ErrorDescription: &description})
	}
}

func (r *round) start(operation string, d *Delivery, call settleCall) {
	select {
	case r.slots <- struct{}{}:
	case <-r.work.Done():
		return
	}
	short, end := r.short, r.end
	if time.Since(r.begun) > settleTimeout/4 {
		// It waited for others, and has the same time as they had.
		short, end = context.WithTimeout(r.work, settleTimeout)
	} else {
		r.users.Add(1)
	}
	r.running.Go(func() {
		defer func() { <-r.slots }()
		err := call(short, d.message)
		end()
		r.run(r.work, operation, d.message, call, err)
	})
}

// run judges the first attempt, and makes the others.
func (s *settler) run(ctx context.Context, operation string, m *azservicebus.ReceivedMessage, call settleCall, err error) {
	for attempt := 1; ctx.Err() == nil; attempt++ {
		class := sbus.Classify(err)
		s.metrics.settlements.WithLabelValues(operation, resultOf(class)).Inc()
		var pause time.Duration
		switch class {
		case sbus.ClassNone:
			return
		case sbus.ClassLockLost, sbus.ClassConnectionLost, sbus.ClassStopped:
			s.lost(fmt.Errorf("%w: settle a message: %w", ErrLockLost, err))
			return
		case sbus.ClassBusy:
			pause = busyWait + backoff.After(100*time.Millisecond, time.Second, attempt)
		case sbus.ClassTransient:
			pause = backoff.After(100*time.Millisecond, time.Second, attempt)
		default:
		}
		if pause == 0 || attempt == settleAttempts {
			s.log.Debug().Err(err).Str("operation", operation).Str("messageId", m.MessageID).
				EmbedObject(originOf(m)).Msg("message not settled, it will come again as a duplicate")
			s.left.Store(true)
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		short, cancel := context.WithTimeout(ctx, settleTimeout)
		err = call(short, m)
		cancel()
	}
}

// wait returns when nothing is being settled any more.
func (s *settler) wait() { s.running.Wait() }

// clip makes a text fit for the dead-letter queue.
func clip(text string) string {
	if len(text) > maxDeadLetterText {
		text = text[:maxDeadLetterText]
	}
	return strings.ToValidUTF8(text, "")
}
