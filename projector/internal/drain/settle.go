package drain

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// settlesAtOnce bounds the settlements that a session waits for at the same time.
// Each costs a round trip, and neither receiver has a call for several.
const settlesAtOnce = 256

// settleAttempts bounds how often a settlement is tried. What is given up comes
// again after the session's release, as a duplicate.
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
	lost     context.CancelCauseFunc
	metrics  *metrics
	log      zerolog.Logger
}

func newSettler(r Receiver, lost context.CancelCauseFunc, m *metrics, log zerolog.Logger) *settler {
	return &settler{receiver: r, slots: make(chan struct{}, settlesAtOnce), lost: lost, metrics: m, log: log}
}

// settle starts to settle a delivery and its duplicates. It waits while too many are
// running, and does nothing once ctx has ended.
func (s *settler) settle(ctx context.Context, d *Delivery, v Verdict) {
	operation, call := operationComplete, s.complete
	if v.Outcome == Poison {
		operation, call = operationDeadLetter, s.deadLetter(v)
	}
	s.start(ctx, operation, d, call)
	for _, duplicate := range d.duplicates {
		s.start(ctx, operationComplete, duplicate, s.complete)
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

func (s *settler) start(ctx context.Context, operation string, d *Delivery, call settleCall) {
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return
	}
	s.running.Go(func() {
		defer func() { <-s.slots }()
		s.run(ctx, operation, d.message, call)
	})
}

func (s *settler) run(ctx context.Context, operation string, m *azservicebus.ReceivedMessage, call settleCall) {
	for attempt := 1; ctx.Err() == nil; attempt++ {
		short, cancel := context.WithTimeout(ctx, settleTimeout)
		err := call(short, m)
		cancel()
		if ctx.Err() != nil {
			return
		}
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
			pause = busyWait + backoff(100*time.Millisecond, time.Second, attempt)
		case sbus.ClassTransient:
			pause = backoff(100*time.Millisecond, time.Second, attempt)
		default:
		}
		if pause == 0 || attempt == settleAttempts {
			s.log.Debug().Err(err).Str("operation", operation).Str("messageId", m.MessageID).
				Msg("message not settled, it will come again as a duplicate")
			return
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
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
