package sessions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
)

// maxYields bounds how often ReceiveMessages lets other goroutines run for more messages.
const maxYields = 3

const (
	sessionFilter     = "com.microsoft:session-filter"
	sessionFilterCode = uint64(0x137000000C)
	// noSessionCondition is the answer to an accept if no session is available.
	noSessionCondition amqp.ErrCond = "com.microsoft:timeout"
	// deadLetterCondition makes the broker dead-letter a rejected message.
	deadLetterCondition amqp.ErrCond = "com.microsoft:dead-letter"
)

// ErrSettled reports a message that this session did not receive, or that it has settled
// before. The first settlement stays valid. [sbus.Classify] gives ClassRefused.
var ErrSettled error = &amqp.Error{Condition: amqp.ErrCondNotAllowed, Description: "a settlement of this message was sent before, or this session did not receive it"}

// Session is a session that the broker has locked for this process. It satisfies the
// same interfaces as [azservicebus.SessionReceiver]. One goroutine may receive; all
// other methods are safe for concurrent use.
type Session struct {
	line        *line
	channel     *amqp.Session
	link        *amqp.Receiver
	id          string
	lockedUntil time.Time

	// credit is how many messages the broker may still send. Only ReceiveMessages uses it.
	credit int

	mu sync.Mutex
	// unsettled are the messages that were received and for which no settlement was sent.
	unsettled map[*azservicebus.ReceivedMessage]*amqp.Message
	// unanswered is set when a settlement has ended without the broker's answer.
	unanswered bool
}

// Accept waits for the next session of the subscription that is free and has messages.
// After at most wait the broker answers that there is none: [ErrNoSession]. If ctx ends
// first, a session that the broker grants at the same moment is released.
func (c *Connection) Accept(ctx context.Context, wait time.Duration) (*Session, error) {
	l, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	for {
		channel, used, err := l.take(ctx)
		if err != nil {
			return nil, fmt.Errorf("begin an AMQP session: %w", err)
		}
		s, err := l.attach(ctx, channel, wait)
		if err == nil {
			return s, nil
		}
		var ended *amqp.SessionError
		if used && errors.As(err, &ended) && ctx.Err() == nil {
			// The broker has ended this AMQP session since its last use.
			continue
		}
		return nil, err
	}
}

// attach attaches a link to the next session.
func (l *line) attach(ctx context.Context, channel *amqp.Session, wait time.Duration) (*Session, error) {
	// The jitter keeps accepts that began together from ending together.
	wait -= rand.N(max(wait/100, 1))
	link, err := channel.NewReceiver(ctx, l.path, &amqp.ReceiverOptions{
		Credit:         -1, // given by hand
		SettlementMode: amqp.ReceiverSettleModeSecond.Ptr(),
		Filters:        []amqp.LinkFilter{amqp.NewLinkFilter(sessionFilter, sessionFilterCode, nil)},
		Properties:     map[string]any{"com.microsoft:timeout": uint32(max(wait.Milliseconds(), 1))},
	})
	if err != nil {
		return nil, l.refused(channel, err)
	}
	id, ok := link.LinkSourceFilterValue(sessionFilter).(string)
	if !ok {
		l.end(channel)
		return nil, fmt.Errorf("the broker attached a link without a session id: the filter is %v", link.LinkSourceFilterValue(sessionFilter))
	}
	s := &Session{line: l, channel: channel, link: link, id: id, unsettled: make(map[*azservicebus.ReceivedMessage]*amqp.Message)}
	if ticks, ok := link.Properties()["com.microsoft:locked-until-utc"].(int64); ok {
		s.lockedUntil = fromTicks(ticks)
	}
	return s, nil
}

// refused handles the error of an attach. If the broker has answered, the AMQP session can
// be used again. Otherwise the accept may still be pending at the broker, so refused ends
// the AMQP session, which releases a session that was granted.
func (l *line) refused(channel *amqp.Session, err error) error {
	var answer *amqp.Error
	var conn *amqp.ConnError
	if !errors.As(err, &answer) || detached(err) || errors.As(err, &conn) {
		l.end(channel)
		return fmt.Errorf("accept the next session: %w", err)
	}
	l.keep(channel)
	if answer.Condition == noSessionCondition {
		return fmt.Errorf("%w: %w", ErrNoSession, err)
	}
	return fmt.Errorf("accept the next session: %w", err)
}

// SessionID is the session's id. It may be empty, which is a valid id.
func (s *Session) SessionID() string { return s.id }

// LockedUntil is when the lock that came with the accept ends, by the broker's clock;
// zero if the broker did not say.
func (s *Session) LockedUntil() time.Time { return s.lockedUntil }

// ReceiveMessages waits for at least one message, until ctx ends or the link does, and
// returns the messages that are here, at most limit of them. What the broker sends later
// waits for the next call, in order, and nothing releases it. It never returns without a
// message and without an error. TimeAfterFirstMessage has no effect, because there is no
// reason to wait.
func (s *Session) ReceiveMessages(ctx context.Context, limit int, _ *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error) {
	// Credit is renewed when half of it is used: a flow frame for each message would cost
	// as much as the message.
	if s.credit <= limit/2 {
		if err := s.link.IssueCredit(uint32(limit - s.credit)); err != nil {
			return nil, err
		}
		s.credit = limit
	}
	first, err := s.link.Receive(ctx, nil)
	if err != nil {
		return nil, err
	}
	received := []*azservicebus.ReceivedMessage{s.received(first)}
	for yields := 0; len(received) < limit; {
		if next := s.link.Prefetched(); next != nil {
			received = append(received, s.received(next))
			continue
		}
		// The broker sends the messages of a session together, and go-amqp passes each through
		// three goroutines. The messages behind the first one arrive while these goroutines run.
		// Together they are one batch and one write, and the wait costs no time on idle cores.
		if yields++; yields > maxYields {
			break
		}
		runtime.Gosched()
	}
	return received, nil
}

// received takes over a message of the link. What a settlement does not need of go-amqp's
// message is not kept in memory until then: its maps are larger than most bodies.
func (s *Session) received(raw *amqp.Message) *azservicebus.ReceivedMessage {
	s.credit--
	m := convert(raw)
	raw.Header, raw.DeliveryAnnotations, raw.Annotations, raw.Properties = nil, nil, nil, nil
	raw.ApplicationProperties, raw.Data, raw.Value, raw.Footer = nil, nil, nil, nil
	s.mu.Lock()
	s.unsettled[m] = raw
	s.mu.Unlock()
	return m
}

// CompleteMessage deletes a message from the subscription.
func (s *Session) CompleteMessage(ctx context.Context, m *azservicebus.ReceivedMessage, _ *azservicebus.CompleteMessageOptions) error {
	return s.settle(m, func(raw *amqp.Message) error { return s.link.AcceptMessage(ctx, raw) })
}

// DeadLetterMessage moves a message to the dead-letter queue of the subscription.
func (s *Session) DeadLetterMessage(ctx context.Context, m *azservicebus.ReceivedMessage, o *azservicebus.DeadLetterOptions) error {
	info := map[string]any{"DeadLetterReason": "", "DeadLetterErrorDescription": ""}
	if o != nil {
		if o.Reason != nil {
			info["DeadLetterReason"] = *o.Reason
		}
		if o.ErrorDescription != nil {
			info["DeadLetterErrorDescription"] = *o.ErrorDescription
		}
		maps.Copy(info, o.PropertiesToModify)
	}
	return s.settle(m, func(raw *amqp.Message) error {
		return s.link.RejectMessage(ctx, raw, &amqp.Error{Condition: deadLetterCondition, Info: info})
	})
}

// settle sends a disposition and waits for the broker's. If the broker refuses, the error
// is its condition. A disposition is sent only once, because go-amqp would report success
// for a second one without sending it.
func (s *Session) settle(m *azservicebus.ReceivedMessage, send func(*amqp.Message) error) error {
	s.mu.Lock()
	raw, ok := s.unsettled[m]
	delete(s.unsettled, m)
	s.mu.Unlock()
	if !ok {
		return ErrSettled
	}
	err := send(raw)
	var answer *amqp.Error
	if err != nil && (!errors.As(err, &answer) || detached(err)) {
		s.mu.Lock()
		s.unanswered = true
		s.mu.Unlock()
	}
	return err
}

// RenewSessionLock renews the lock for its full duration.
func (s *Session) RenewSessionLock(ctx context.Context, _ *azservicebus.RenewSessionLockOptions) error {
	return s.line.renew(ctx, s.link.LinkName(), s.id)
}

// Close releases the session, so that another receiver can accept it. Messages that are not
// settled become available again, and their delivery count does not increase. Close takes
// one round trip. If ctx ends first, the rest happens in the background.
//
// The broker may still have credit and messages on their way. The official SDKs drain
// that credit before they close a receiver, but not before they release a session, whose
// end makes its messages available (.NET: AmqpReceiver, Python: azure-sdk-for-python
// #47999). A drain can also take a minute while the broker throttles
// (azure-sdk-for-net#45477).
func (s *Session) Close(ctx context.Context) error {
	err := s.link.Close(ctx)
	waits := false
	for s.link.Prefetched() != nil {
		waits = true
	}
	s.mu.Lock()
	clean := err == nil && !waits && !s.unanswered && len(s.unsettled) == 0
	s.mu.Unlock()
	if clean {
		s.line.keep(s.channel)
	} else {
		s.line.end(s.channel)
	}
	return err
}
