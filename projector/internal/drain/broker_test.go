package drain_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/drain"
)

// fakeBroker is a subscription with sessions.
type fakeBroker struct {
	rtt      time.Duration
	lockFor  time.Duration
	changed  chan struct{}
	mu       sync.Mutex
	sessions map[string]*fakeSession
	order    []string
	tokens   uint64
	accepts  int
	waiting  int
	maxWait  int
	dialled  int
	// key is the one that connections must have been made with, and refused counts the accepts
	// of others.
	key, refused int
	// out is the size of the delivered and unsettled messages in bytes, and maxOut its
	// maximum.
	out, maxOut int
	open        int
	// asks counts the calls of ReceiveMessages, and asked the messages that they
	// requested.
	asks, asked int
	dead        map[string]string
	// linkErr is what a call of ReceiveMessages on a dead link returns. The SDK returns nil.
	linkErr  error
	problems []string
	// acceptErr, if set, can fail an accept.
	acceptErr func() error
	// renewErr, if set, can fail a renewal.
	renewErr func() error
	// settleErr, if set, can fail a settlement before it takes effect.
	settleErr func() error
	// settleDelay is added to every settlement.
	settleDelay time.Duration
	// settling counts the settlements in flight of all sessions, and maxSettling is its
	// maximum.
	settling, maxSettling int
}

type fakeSession struct {
	messages []*fakeMessage
	// byToken are the deliveries. No message before the index first is available, and
	// left counts the unsettled messages.
	byToken     map[[16]byte]*fakeMessage
	first, left int
	owner       *fakeReceiver
	expiry      *time.Timer
	held        int
}

// fakeMessage is a message. It is available if link is nil.
type fakeMessage struct {
	id      string
	body    []byte
	place   int
	link    *fakeReceiver
	token   [16]byte
	settled bool
}

func newFakeBroker(rtt, lockFor time.Duration) *fakeBroker {
	return &fakeBroker{rtt: rtt, lockFor: lockFor, changed: make(chan struct{}), sessions: make(map[string]*fakeSession), dead: make(map[string]string), linkErr: errDetached}
}

// withBroker runs a test in a synctest bubble.
func withBroker(t *testing.T, test func(t *testing.T, broker *fakeBroker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newFakeBroker(2*time.Millisecond, time.Minute)) })
}

func eventBody(aggregate string, id int64) []byte {
	return testkit.Raw(bson.D{{Key: "aggregateId", Value: aggregate}, {Key: "eventId", Value: id}, {Key: "eventType", Value: "Happened"}, {Key: "payload", Value: bson.D{{Key: "n", Value: id}}}})
}

func (b *fakeBroker) send(session, aggregate string, ids ...int64) {
	for _, id := range ids {
		b.sendBody(session, fmt.Sprintf("%s/%d", aggregate, id), eventBody(aggregate, id))
	}
}

func (b *fakeBroker) sendBody(session, id string, body []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.sessions[session]
	if s == nil {
		s = &fakeSession{byToken: make(map[[16]byte]*fakeMessage)}
		b.sessions[session] = s
		b.order = append(b.order, session)
	}
	s.messages = append(s.messages, &fakeMessage{id: id, body: body, place: len(s.messages)})
	s.left++
	if s.owner != nil {
		s.owner.deliver()
	}
	b.signal()
}

// signal wakes all goroutines that wait for a change. The caller must hold the lock.
func (b *fakeBroker) signal() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// settlement waits as long as the broker takes for a settlement. It returns the error of
// ctx or the fault that the test has ordered.
func (b *fakeBroker) settlement(ctx context.Context) error {
	b.mu.Lock()
	b.settling++
	b.maxSettling = max(b.maxSettling, b.settling)
	delay := b.rtt + b.settleDelay
	b.mu.Unlock()
	pause(ctx, delay)
	b.mu.Lock()
	b.settling--
	b.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	return fault(b.settleErr)
}

// unsettled returns the number of unsettled messages.
func (b *fakeBroker) unsettled() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, s := range b.sessions {
		n += s.left
	}
	return n
}

func (b *fakeBroker) held() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var held []string
	for id, s := range b.sessions {
		if s.owner != nil {
			held = append(held, id)
		}
	}
	return held
}

// timesHeld returns how often a session was accepted.
func (b *fakeBroker) timesHeld(session string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sessions[session].held
}

// left returns an error if callers misused the broker, or left sessions or connections
// open.
func (b *fakeBroker) left() error {
	if held := b.held(); len(held) > 0 {
		return fmt.Errorf("sessions still held: %v", held)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open != 0 {
		return fmt.Errorf("%d connections still open", b.open)
	}
	if len(b.problems) > 0 {
		return errors.New(b.problems[0])
	}
	return nil
}

// detach takes a session from its link. The caller must hold the lock.
func (b *fakeBroker) detach(s *fakeSession) {
	link := s.owner
	s.owner = nil
	s.expiry.Stop()
	for _, m := range s.messages {
		if m.link == link {
			m.link = nil
			b.out -= len(m.body)
			s.first = min(s.first, m.place)
		}
	}
	if link != nil {
		link.session = nil
		link.attached = false
		link.credit, link.arrived = 0, nil
	}
	b.signal()
}

func (b *fakeBroker) attach(s *fakeSession, link *fakeReceiver) {
	s.owner = link
	s.held++
	link.session, link.attached = s, true
	link.credit = 0
	link.lockedUntil = time.Now().Add(b.lockFor)
	link.epoch++
	epoch := link.epoch
	s.expiry = time.AfterFunc(b.lockFor, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if s.owner == link && link.epoch == epoch {
			b.detach(s)
		}
	})
	b.signal()
}

func (b *fakeBroker) Dial() (drain.Connection, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dialled++
	b.open++
	return &fakeConnection{broker: b, key: b.key}, nil
}

type fakeConnection struct {
	broker *fakeBroker
	key    int
	closed bool
}

func (c *fakeConnection) Expired() bool {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	return c.key != c.broker.key
}

func (c *fakeConnection) Close(context.Context) error {
	c.broker.mu.Lock()
	defer c.broker.mu.Unlock()
	if !c.closed {
		c.closed = true
		c.broker.open--
	}
	return nil
}

func (c *fakeConnection) Accept(ctx context.Context, wait time.Duration) (drain.Accepted, error) {
	b := c.broker
	b.mu.Lock()
	b.waiting++
	b.maxWait = max(b.maxWait, b.waiting)
	fail := b.acceptErr
	if c.key != b.key {
		b.refused++
		fail = func() error { return &azservicebus.Error{Code: azservicebus.CodeUnauthorizedAccess} }
	}
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.waiting--
		b.mu.Unlock()
	}()
	until := time.Now().Add(wait)
	pause(ctx, b.rtt)
	if fail != nil {
		if err := fail(); err != nil {
			return drain.Accepted{}, err
		}
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	for {
		b.mu.Lock()
		changed := b.changed
		for _, id := range b.order {
			s := b.sessions[id]
			if s.owner == nil && s.left > 0 {
				link := &fakeReceiver{broker: b, id: id, sent: make(map[*azservicebus.ReceivedMessage]bool)}
				b.attach(s, link)
				b.accepts++
				// The next accept returns another session first.
				b.order = append(slices.DeleteFunc(b.order, func(o string) bool { return o == id }), id)
				lockedUntil := link.lockedUntil
				b.mu.Unlock()
				return drain.Accepted{Receiver: link, SessionID: id, LockedUntil: lockedUntil}, nil
			}
		}
		b.mu.Unlock()
		select {
		case <-changed:
		case <-timer.C:
			pause(ctx, b.rtt)
			if ctx.Err() != nil {
				return drain.Accepted{}, ctx.Err()
			}
			return drain.Accepted{}, drain.ErrNoSession
		case <-ctx.Done():
			return drain.Accepted{}, ctx.Err()
		}
	}
}
