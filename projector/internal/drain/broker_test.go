package drain_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/drain"
)

// fakeBroker is a subscription with sessions behind an SDK with the hazards of
// azservicebus v1.11: see the methods of fakeReceiver for what it does to its
// callers.
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
	mostWait int
	dialled  int
	released int
	open     int
	dead     map[string]string
	problems []string
	// acceptErr, where set, may fail an accept.
	acceptErr func() error
	// renewErr, where set, may fail a renewal.
	renewErr func() error
	// settleErr, where set, may fail a settlement before it happens.
	settleErr func() error
	// settleDelay is added to every settlement.
	settleDelay time.Duration
}

type fakeSession struct {
	id       string
	messages []*fakeMessage
	// byToken are the deliveries; before first, nothing is available, and left are not
	// settled.
	byToken     map[[16]byte]*fakeMessage
	first, left int
	owner       *fakeReceiver
	expiry      *time.Timer
	held        int
}

// fakeMessage is available where link is nil.
type fakeMessage struct {
	id        string
	body      []byte
	place     int
	link      *fakeReceiver
	token     [16]byte
	delivered int
	settled   bool
}

func newFakeBroker(rtt, lockFor time.Duration) *fakeBroker {
	return &fakeBroker{rtt: rtt, lockFor: lockFor, changed: make(chan struct{}), sessions: make(map[string]*fakeSession), dead: make(map[string]string)}
}

func eventBody(aggregate string, id int64) []byte {
	body, err := bson.Marshal(bson.D{{Key: "aggregateId", Value: aggregate}, {Key: "eventId", Value: id}, {Key: "eventType", Value: "Happened"}, {Key: "payload", Value: bson.D{{Key: "n", Value: id}}}})
	if err != nil {
		panic(err)
	}
	return body
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
		s = &fakeSession{id: session, byToken: make(map[[16]byte]*fakeMessage)}
		b.sessions[session] = s
		b.order = append(b.order, session)
	}
	s.messages = append(s.messages, &fakeMessage{id: id, body: body, place: len(s.messages)})
	s.left++
	b.signal()
}

// signal wakes everyone who waits for a change. The lock is held.
func (b *fakeBroker) signal() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// unsettled counts the messages that are still there.
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

// left says what all who have gone did wrong or left behind.
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

// loseLock lets the broker expire a session's lock, as if its renewal had been
// lost.
func (b *fakeBroker) loseLock(session string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.sessions[session]; s != nil && s.owner != nil {
		b.detach(s)
	}
}

// detach takes a session from its link. The lock is held.
func (b *fakeBroker) detach(s *fakeSession) {
	link := s.owner
	s.owner = nil
	s.expiry.Stop()
	for _, m := range s.messages {
		if m.link == link {
			m.link = nil
			s.first = min(s.first, m.place)
		}
	}
	if link != nil {
		link.session = nil
		link.attached = false
		link.credit = 0
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
	return &fakeConnection{broker: b}, nil
}

type fakeConnection struct {
	broker *fakeBroker
	closed bool
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

func (c *fakeConnection) Accept(ctx context.Context) (drain.Accepted, error) {
	b := c.broker
	b.mu.Lock()
	b.waiting++
	b.mostWait = max(b.mostWait, b.waiting)
	fail := b.acceptErr
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.waiting--
		b.mu.Unlock()
	}()
	pause(ctx, 15*b.rtt)
	if fail != nil {
		if err := fail(); err != nil {
			return drain.Accepted{}, err
		}
	}
	deadline, _ := ctx.Deadline()
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for {
		b.mu.Lock()
		changed := b.changed
		for _, id := range b.order {
			s := b.sessions[id]
			if s.owner == nil && s.left > 0 {
				link := &fakeReceiver{broker: b, id: id}
				b.attach(s, link)
				b.accepts++
				// The next accept finds another one first.
				b.order = append(slices.DeleteFunc(b.order, func(o string) bool { return o == id }), id)
				until := link.lockedUntil
				b.mu.Unlock()
				return drain.Accepted{Receiver: link, SessionID: id, LockedUntil: until}, nil
			}
		}
		b.mu.Unlock()
		select {
		case <-changed:
		case <-timer.C:
			return drain.Accepted{}, &azservicebus.Error{Code: azservicebus.CodeTimeout}
		case <-ctx.Done():
			return drain.Accepted{}, ctx.Err()
		}
	}
}

// fakeReceiver is a session receiver. Its fields are under the broker's lock.
type fakeReceiver struct {
	broker      *fakeBroker
	id          string
	session     *fakeSession
	attached    bool
	closed      bool
	lockedUntil time.Time
	epoch       int
	// credit is what the broker may still send.
	credit       int
	receiving    bool
	stopReleaser func()
	// told is set when a call has said that the link is dead.
	told bool
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// next takes the next message that the broker sends, within its credit. A nil
// message and a nil error say that ctx has ended.
func (r *fakeReceiver) next(ctx context.Context) (*fakeMessage, bool) {
	b := r.broker
	for {
		b.mu.Lock()
		changed := b.changed
		if !r.attached {
			b.mu.Unlock()
			return nil, false
		}
		if r.credit > 0 {
			for s := r.session; s.first < len(s.messages); s.first++ {
				if m := s.messages[s.first]; !m.settled && m.link == nil {
					b.tokens++
					binary.BigEndian.PutUint64(m.token[:], b.tokens)
					s.byToken[m.token] = m
					m.link = r
					m.delivered++
					r.credit--
					b.mu.Unlock()
					return m, true
				}
			}
		}
		b.mu.Unlock()
		// Like go-amqp, what is there comes before the end of the context.
		if ctx.Err() != nil {
			return nil, true
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// ReceiveMessages leaves credit behind, lets a releaser take what comes then,
// reports a dead link as (0, nil), and attaches the session again when it is
// called once more.
func (r *fakeReceiver) ReceiveMessages(ctx context.Context, most int, o *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error) {
	b := r.broker
	b.mu.Lock()
	if r.receiving {
		b.problems = append(b.problems, "ReceiveMessages called concurrently")
	}
	r.receiving = true
	stop := r.stopReleaser
	r.stopReleaser = nil
	b.mu.Unlock()
	defer func() { b.mu.Lock(); r.receiving = false; b.mu.Unlock() }()
	if stop != nil {
		stop()
	}
	b.mu.Lock()
	switch {
	case r.closed:
		b.problems = append(b.problems, "ReceiveMessages called after Close")
	case !r.attached:
		if r.told {
			b.problems = append(b.problems, "ReceiveMessages called on a dead link")
		}
		s := b.sessions[r.id]
		if s.owner != nil {
			b.mu.Unlock()
			return nil, &amqp.Error{Condition: "com.microsoft:session-cannot-be-locked"}
		}
		b.attach(s, r)
	}
	fresh := most > r.credit
	r.credit = max(r.credit, most)
	b.mu.Unlock()
	if fresh {
		pause(ctx, b.rtt)
	}

	var messages []*azservicebus.ReceivedMessage
	m, alive := r.next(ctx)
	if m != nil {
		messages = append(messages, r.received(m))
		more, cancel := context.WithTimeout(ctx, o.TimeAfterFirstMessage)
		for len(messages) < most {
			m, alive = r.next(more)
			if m == nil {
				break
			}
			messages = append(messages, r.received(m))
		}
		cancel()
	}
	if alive {
		r.startReleaser()
	}
	switch {
	case len(messages) > 0:
		return messages, nil
	case !alive:
		b.mu.Lock()
		r.told = true
		b.mu.Unlock()
		return nil, nil
	default:
		return nil, ctx.Err()
	}
}

func (r *fakeReceiver) received(m *fakeMessage) *azservicebus.ReceivedMessage {
	contentType := event.ContentTypeBSON
	r.broker.mu.Lock()
	defer r.broker.mu.Unlock()
	return &azservicebus.ReceivedMessage{MessageID: m.id, Body: m.body, ContentType: &contentType, LockToken: m.token, SessionID: &r.id}
}

// startReleaser gives back what comes while nobody receives.
func (r *fakeReceiver) startReleaser() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	r.broker.mu.Lock()
	r.stopReleaser = func() { cancel(); <-done }
	r.broker.mu.Unlock()
	go func() {
		defer close(done)
		for {
			m, alive := r.next(ctx)
			if m == nil {
				return
			}
			pause(context.Background(), r.broker.rtt)
			r.broker.mu.Lock()
			if m.link == r {
				m.link = nil
				r.session.first = min(r.session.first, m.place)
				r.broker.released++
				r.broker.signal()
			}
			r.broker.mu.Unlock()
			if ctx.Err() != nil || !alive {
				return
			}
		}
	}()
}

// settle reports success after 4 s where the lock is lost, if it is let to.
func (r *fakeReceiver) settle(ctx context.Context, m *azservicebus.ReceivedMessage, then func(*fakeMessage)) error {
	b := r.broker
	if _, bounded := ctx.Deadline(); !bounded {
		b.mu.Lock()
		b.problems = append(b.problems, "settled without a deadline")
		b.mu.Unlock()
	}
	pause(ctx, b.rtt+b.settleDelay)
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.settleErr != nil {
		if err := b.settleErr(); err != nil {
			return err
		}
	}
	b.mu.Lock()
	if have := b.sessions[r.id].byToken[m.LockToken]; have != nil && have.token == m.LockToken && have.link == r && !have.settled {
		have.settled, have.link = true, nil
		b.sessions[r.id].left--
		then(have)
		b.mu.Unlock()
		return nil
	}
	b.mu.Unlock()
	pause(ctx, 4*time.Second)
	return ctx.Err()
}

func (r *fakeReceiver) CompleteMessage(ctx context.Context, m *azservicebus.ReceivedMessage, _ *azservicebus.CompleteMessageOptions) error {
	return r.settle(ctx, m, func(*fakeMessage) {})
}

func (r *fakeReceiver) DeadLetterMessage(ctx context.Context, m *azservicebus.ReceivedMessage, o *azservicebus.DeadLetterOptions) error {
	return r.settle(ctx, m, func(m *fakeMessage) { r.broker.dead[m.id] = *o.Reason })
}

func (r *fakeReceiver) RenewSessionLock(ctx context.Context, _ *azservicebus.RenewSessionLockOptions) error {
	b := r.broker
	pause(ctx, b.rtt)
	if b.renewErr != nil {
		if err := b.renewErr(); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !r.attached {
		return &azservicebus.Error{Code: azservicebus.CodeLockLost}
	}
	r.session.expiry.Reset(b.lockFor)
	return nil
}

func (r *fakeReceiver) Close(ctx context.Context) error {
	b := r.broker
	b.mu.Lock()
	if r.receiving {
		b.problems = append(b.problems, "closed while receiving")
	}
	stop := r.stopReleaser
	r.stopReleaser = nil
	b.mu.Unlock()
	if stop != nil {
		stop()
	}
	pause(ctx, 3*b.rtt)
	b.mu.Lock()
	defer b.mu.Unlock()
	r.closed = true
	if r.attached {
		b.detach(r.session)
	}
	return nil
}

var errStore = errors.New("store is not able to")

// model applies events to a watermark per aggregate, in the way of a guarded
// write: it reads, takes its time, and writes only what still fits.
type model struct {
	latency time.Duration
	// store holds how many events each aggregate has in the event store.
	store map[string]int64
	// poison are the events that park their aggregate.
	poison map[string]int64
	// transient, where set, may fail an event.
	transient func() bool

	mu        sync.Mutex
	watermark map[string]int64
	applied   map[string][]int64
	parked    map[string]bool
	calls     int
	largest   int
	busy      map[string]bool
	problems  []string
	// deaf makes it write on when its context has ended, as a writer does that has
	// begun.
	deaf bool
}

func newModel(latency time.Duration) *model {
	return &model{
		latency: latency, store: make(map[string]int64), poison: make(map[string]int64),
		watermark: make(map[string]int64), applied: make(map[string][]int64), parked: make(map[string]bool), busy: make(map[string]bool),
	}
}

func (m *model) Handle(ctx context.Context, batch []*drain.Delivery, repair bool) []drain.Verdict {
	m.mu.Lock()
	m.calls++
	m.largest = max(m.largest, len(batch))
	from := make(map[string]int64)
	for i, d := range batch {
		from[d.Event.AggregateID] = m.watermark[d.Event.AggregateID]
		if i > 0 && batch[i-1].Event.AggregateID == d.Event.AggregateID && batch[i-1].Event.EventID >= d.Event.EventID {
			m.problems = append(m.problems, "batch not ascending")
		}
	}
	m.mu.Unlock()
	if m.deaf {
		pause(context.Background(), m.latency)
	} else if pause(ctx, m.latency); ctx.Err() != nil {
		return make([]drain.Verdict, len(batch))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	verdicts := make([]drain.Verdict, len(batch))
	stale := make(map[string]bool)
	for key, v := range from {
		// The guard: what was read is what is there.
		stale[key] = m.watermark[key] != v
	}
	for i, d := range batch {
		key, id := d.Event.AggregateID, d.Event.EventID
		switch {
		case stale[key] || m.transient != nil && m.transient():
			stale[key] = true
			verdicts[i] = drain.Verdict{Outcome: drain.Retry, Err: errStore}
		default:
			verdicts[i] = m.apply(key, id, repair)
		}
	}
	return verdicts
}

func (m *model) apply(key string, id int64, repair bool) drain.Verdict {
	switch v := m.watermark[key]; {
	case m.parked[key], id <= v:
		return drain.Verdict{Outcome: drain.Done}
	case id > v+1 && (!repair || m.store[key] < id-1):
		return drain.Verdict{Outcome: drain.Gap}
	default:
		for v++; v <= id; v++ {
			if m.poison[key] == v {
				m.parked[key] = true
				if v < id {
					return drain.Verdict{Outcome: drain.Done}
				}
				return drain.Verdict{Outcome: drain.Poison, Reason: "expression", Err: errors.New("no such key")}
			}
			m.applied[key] = append(m.applied[key], v)
			m.watermark[key] = v
		}
		return drain.Verdict{Outcome: drain.Done}
	}
}

// check says what is wrong with the effects, where each aggregate should have its
// events 1 to want.
func (m *model) check(want map[string]int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.problems {
		return errors.New(p)
	}
	for key, n := range want {
		applied := m.applied[key]
		for i, id := range applied {
			if id != int64(i)+1 {
				return fmt.Errorf("%s: event %d applied at place %d: %v", key, id, i+1, applied)
			}
		}
		if int64(len(applied)) != n {
			return fmt.Errorf("%s: %d events applied, want %d", key, len(applied), n)
		}
	}
	return nil
}
