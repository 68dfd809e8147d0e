package broker_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/message"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// encode returns a message with an id, in a session if it has one.
func encode(t interface{ Fatal(...any) }, id string, session any) *message.Message {
	properties := []any{id, nil, nil, nil, nil, nil, nil, nil, nil, nil, session}
	b := wire.AppendValue(wire.AppendDescriptor(nil, wire.CodeProperties), properties)

	m, err := message.Parse(wire.AppendBinary(wire.AppendDescriptor(b, wire.CodeData), []byte(id)), func() string { return "" })
	if err != nil {
		t.Fatal(err)
	}

	return m
}

// consumer is a link with credit that keeps its deliveries.
type consumer struct {
	credit   int
	held     []broker.Delivery
	detached *wire.Error
}

func (c *consumer) Deliver(d *broker.Delivery) bool {
	if c.credit == 0 {
		return false
	}

	c.credit--
	c.held = append(c.held, *d)

	return true
}

func (c *consumer) Detach(reason *wire.Error) { c.detached = reason }

const (
	lock          = 30 * time.Second
	maxDeliveries = 4
)

// model is the expected state of a session queue.
type model struct {
	t        *rapid.T
	queue    *broker.Destination
	sessions map[string][]*entry
	holders  []*holder
	sent     int
	dead     int
	done     int
}

type entry struct {
	id       string
	count    uint32
	locked   bool
	deferred bool
	seq      int64
}

// holder is a receiver of a session.
type holder struct {
	*consumer

	session  string
	receiver *broker.Receiver
	until    time.Time
}

func (m *model) holderOf(session string) *holder {
	for _, h := range m.holders {
		if h.session == session {
			return h
		}
	}

	return nil
}

// TestQueueAgainstModel compares a queue with sessions to a model over random operations of
// receivers. Each delivery must be the first available message, must go to the session's
// only holder, and must have the right delivery count.
func TestQueueAgainstModel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// rapid must not ask for the test's deadline: a synctest bubble has none.
		rapid.Check(struct{ rapid.TB }{t}, func(t *rapid.T) {
			ns := broker.NewNamespace()
			defer ns.Close()

			if err := ns.CreateQueue(broker.StandaloneConfig{Name: "q", QueueConfig: broker.QueueConfig{
				RequiresSession: true, LockDuration: lock, MaxDeliveryCount: maxDeliveries,
			}}); err != nil {
				t.Fatal(err)
			}

			m := &model{t: t, queue: ns.Destination("q"), sessions: make(map[string][]*entry)}
			t.Repeat(map[string]func(*rapid.T){
				"send":    m.send,
				"accept":  m.accept,
				"credit":  m.credit,
				"settle":  m.settle,
				"defer":   m.receiveDeferred,
				"close":   m.close,
				"renew":   m.renew,
				"lose":    m.lose,
				"advance": m.advance,
				"":        m.check,
			})
		})
	})
}

func (m *model) send(t *rapid.T) {
	session := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "session")
	m.sent++
	id := fmt.Sprint(m.sent)

	if err := m.queue.Send([]*message.Message{encode(t, id, session)}); err != nil {
		t.Fatal(err)
	}

	m.sessions[session] = append(m.sessions[session], &entry{id: id})
	m.delivered()
}

func (m *model) accept(t *rapid.T) {
	h := &holder{consumer: &consumer{}}
	take := func(g broker.Grant) {
		if g.Err != nil {
			return
		}

		if m.holderOf(g.SessionID) != nil {
			t.Fatalf("session %s is locked twice", g.SessionID)
		}

		h.receiver, h.session, h.until = g.Receiver, g.SessionID, g.LockedUntil
		m.holders = append(m.holders, h)
	}

	if rapid.Bool().Draw(t, "named") {
		session := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "session")
		free := m.holderOf(session) == nil
		g := m.queue.Direct().AcceptSession(session, h, broker.PeekLock)

		if (g.Err == nil) != free {
			t.Fatalf("accept of session %s, free %t: %v", session, free, g.Err)
		}

		take(g)

		return
	}

	var want bool

	for session, entries := range m.sessions {
		want = want || m.holderOf(session) == nil && slices.ContainsFunc(entries, func(e *entry) bool { return !e.deferred })
	}

	before := len(m.holders)

	if w := m.queue.Direct().AcceptNextSession(h, broker.PeekLock, time.Minute, take); w != nil {
		w.Cancel()
	}

	if got := len(m.holders) > before; got != want {
		t.Fatalf("accepted a session: %t, one is available: %t", got, want)
	}
}

func (m *model) pick(t *rapid.T) *holder {
	if len(m.holders) == 0 {
		t.Skip("no session is held")
	}

	return rapid.SampledFrom(m.holders).Draw(t, "holder")
}

func (m *model) credit(t *rapid.T) {
	h := m.pick(t)
	h.credit = rapid.IntRange(1, 5).Draw(t, "credit")
	h.receiver.Resume()
	m.delivered()
}

// delivered checks the deliveries to consumers since its last call.
func (m *model) delivered() {
	for _, h := range m.holders {
		for i := range h.held {
			d := &h.held[i]
			e := m.find(h.session, d.Message.ID)

			if e == nil {
				m.t.Fatalf("session %s was given %s of another", h.session, d.Message.ID)
			}

			if e.locked {
				continue
			}

			if first := m.first(h.session); first != e {
				m.t.Fatalf("session %s was given %s before %+v", h.session, e.id, first)
			}

			if d.Stamp.DeliveryCount != e.count {
				m.t.Fatalf("%s has the count %d, want %d", e.id, d.Stamp.DeliveryCount, e.count)
			}

			e.locked, e.seq = true, d.Stamp.SequenceNumber
		}

		if first := m.first(h.session); first != nil && h.credit > 0 {
			m.t.Fatalf("session %s has credit and was not given %s", h.session, first.id)
		}
	}
}

func (m *model) find(session, id string) *entry {
	for _, e := range m.sessions[session] {
		if e.id == id {
			return e
		}
	}

	return nil
}

// first returns the first available message of a session.
func (m *model) first(session string) *entry {
	for _, e := range m.sessions[session] {
		if !e.locked && !e.deferred {
			return e
		}
	}

	return nil
}

func (m *model) remove(session string, e *entry) {
	m.sessions[session] = slices.DeleteFunc(m.sessions[session], func(o *entry) bool { return o == e })
}

func (m *model) settle(t *rapid.T) {
	h := m.pick(t)
	if len(h.held) == 0 {
		t.Skip("nothing is held")
	}

	i := rapid.IntRange(0, len(h.held)-1).Draw(t, "delivery")
	d := h.held[i]
	verdict := rapid.SampledFrom([]broker.Verdict{
		broker.Complete, broker.Abandon, broker.Release, broker.Defer, broker.DeadLetter,
	}).Draw(t, "verdict")
	h.held = slices.Delete(h.held, i, i+1)
	e := m.find(h.session, d.Message.ID)
	e.locked = false

	switch verdict {
	case broker.Complete:
		m.done++
		m.remove(h.session, e)
	case broker.DeadLetter:
		m.dead++
		m.remove(h.session, e)
	case broker.Abandon:
		m.failed(h.session, e)
	case broker.Defer:
		e.deferred = true
	}

	if err := h.receiver.Settle(d.Item, d.Stamp.LockToken, broker.Outcome{
		Verdict:    verdict,
		Properties: wire.Map{{Key: "settled", Value: "so"}},
	}); err != nil {
		t.Fatal(err)
	}

	if err := h.receiver.Settle(d.Item, d.Stamp.LockToken, broker.Outcome{Verdict: verdict}); err == nil {
		t.Fatal("settled twice")
	}

	m.delivered()
}

func (m *model) failed(session string, e *entry) {
	e.locked = false

	if e.count++; e.count >= maxDeliveries {
		m.dead++
		m.remove(session, e)
	}
}

func (m *model) receiveDeferred(t *rapid.T) {
	h := m.pick(t)

	for _, e := range slices.Clone(m.sessions[h.session]) {
		if !e.deferred {
			continue
		}

		got, err := m.queue.Direct().ReceiveDeferred(h.receiver, []int64{e.seq}, broker.PeekLock)
		if err != nil || got[0].Message.ID != e.id || got[0].Stamp.DeliveryCount != e.count {
			t.Fatalf("deferred %+v: %+v, %v", e, got, err)
		}

		verdict := rapid.SampledFrom([]broker.Verdict{broker.Complete, broker.Abandon}).Draw(t, "verdict")

		if err := m.queue.Direct().SettleToken(h.receiver, got[0].Stamp.LockToken, broker.Outcome{Verdict: verdict}); err != nil {
			t.Fatal(err)
		}

		if verdict == broker.Complete {
			m.done++
			m.remove(h.session, e)
		} else {
			m.failed(h.session, e)
		}
	}
}

func (m *model) drop(h *holder) {
	m.holders = slices.DeleteFunc(m.holders, func(o *holder) bool { return o == h })
}

func (m *model) close(t *rapid.T) {
	h := m.pick(t)
	m.drop(h)

	for _, d := range h.held {
		m.find(h.session, d.Message.ID).locked = false
	}

	h.receiver.Close()
}

func (m *model) renew(t *rapid.T) {
	h := m.pick(t)

	until, err := h.receiver.RenewSession(h.session)
	if err != nil || !until.Equal(time.Now().Add(lock)) {
		t.Fatal(until, err)
	}

	h.until = until
}

func (m *model) lost(h *holder) {
	m.drop(h)

	for _, d := range h.held {
		m.failed(h.session, m.find(h.session, d.Message.ID))
	}

	if h.detached == nil || h.detached.Condition != broker.CondSessionLockLost {
		m.t.Fatalf("detached with %v", h.detached)
	}

	for _, d := range h.held {
		if err := h.receiver.Settle(d.Item, d.Stamp.LockToken, broker.Outcome{}); err == nil {
			m.t.Fatal("settled after the lock was lost")
		}
	}
}

func (m *model) lose(t *rapid.T) {
	h := m.pick(t)

	if !m.queue.Direct().LoseSession(h.session) {
		t.Fatalf("session %s is not locked", h.session)
	}

	m.lost(h)
}

func (m *model) advance(t *rapid.T) {
	<-time.After(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
	synctest.Wait()

	for _, h := range slices.Clone(m.holders) {
		if !h.until.After(time.Now()) {
			m.lost(h)
		}
	}
}

// check compares the counts.
func (m *model) check(t *rapid.T) {
	var want broker.Counts

	for _, entries := range m.sessions {
		for _, e := range entries {
			switch {
			case e.deferred:
				want.Deferred++
			default:
				want.Active++

				if e.locked {
					want.Locked++
				}
			}
		}
	}

	want.DeadLettered = m.dead

	if got := m.queue.Direct().Counts(); got != want {
		t.Fatalf("counts are %+v, want %+v", got, want)
	}

	if left := want.Active + want.Deferred; m.sent != m.done+m.dead+left {
		t.Fatalf("%d were sent, %d are done, %d dead and %d left", m.sent, m.done, m.dead, left)
	}

	if left := want.Active + want.Deferred + want.DeadLettered; (left == 0) != (m.queue.Size() == 0) {
		t.Fatalf("%d messages are %d bytes", left, m.queue.Size())
	}

	// No session is kept without a reason.
	for _, s := range m.queue.Direct().SessionInfos() {
		if !s.Locked && s.Messages == 0 && s.Deferred == 0 {
			t.Fatalf("session %s is left over", s.ID)
		}
	}
}
