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
)

// expiring is a session queue whose messages expire sooner than its locks, with a record
// of what happened to the messages.
type expiring struct {
	queue   *broker.Destination
	holders []*holder
	sent    int
	done    int
}

// TestExpiryAgainstModel checks invariants for any order of expiry: no message is lost or
// counted twice, a session is offered exactly if it has available messages, and no
// session is kept without a reason.
func TestExpiryAgainstModel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// rapid must not ask for the test's deadline: a synctest bubble has none.
		rapid.Check(struct{ rapid.TB }{t}, func(t *rapid.T) {
			ns := broker.NewNamespace()
			defer ns.Close()

			if err := ns.CreateQueue(broker.StandaloneConfig{
				Name:         "q",
				IntakeConfig: broker.IntakeConfig{DefaultTTL: lock / 2},
				QueueConfig: broker.QueueConfig{
					RequiresSession: true, LockDuration: lock, MaxDeliveryCount: maxDeliveries, DeadLetterExpired: true,
				},
			}); err != nil {
				t.Fatal(err)
			}

			m := &expiring{queue: ns.Destination("q")}
			t.Repeat(map[string]func(*rapid.T){
				"send":    m.send,
				"accept":  m.accept,
				"settle":  m.settle,
				"defer":   m.receiveDeferred,
				"close":   m.close,
				"advance": m.advance,
				"":        m.check,
			})
		})
	})
}

func (m *expiring) send(t *rapid.T) {
	m.sent++

	session := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "session")
	if err := m.queue.Send([]*message.Message{encode(t, fmt.Sprint(m.sent), session)}); err != nil {
		t.Fatal(err)
	}
}

func (m *expiring) accept(t *rapid.T) {
	offered := slices.ContainsFunc(m.queue.Direct().SessionInfos(), func(s broker.SessionInfo) bool { return !s.Locked && s.Available > 0 })
	h := &holder{consumer: &consumer{credit: rapid.IntRange(1, 3).Draw(t, "credit")}}

	if w := m.queue.Direct().AcceptNextSession(h, broker.PeekLock, time.Minute, func(g broker.Grant) {
		h.receiver, h.session = g.Receiver, g.SessionID
	}); w != nil {
		w.Cancel()
	}

	if granted := h.receiver != nil; granted != offered {
		t.Fatalf("granted a session: %t, one is offered: %t", granted, offered)
	}

	if offered {
		h.receiver.Resume()
		m.holders = append(m.holders, h)

		if len(h.held) == 0 {
			t.Fatalf("session %s was offered with nothing in it", h.session)
		}
	}
}

func (m *expiring) pick(t *rapid.T) *holder {
	if len(m.holders) == 0 {
		t.Skip("no session is held")
	}

	return rapid.SampledFrom(m.holders).Draw(t, "holder")
}

func (m *expiring) settle(t *rapid.T) {
	h := m.pick(t)
	if len(h.held) == 0 {
		t.Skip("nothing is held")
	}

	d := h.held[0]
	h.held = h.held[1:]
	verdict := rapid.SampledFrom([]broker.Verdict{
		broker.Complete, broker.Abandon, broker.Release, broker.Defer, broker.DeadLetter,
	}).Draw(t, "verdict")

	if err := h.receiver.Settle(d.Item, d.Stamp.LockToken, broker.Outcome{Verdict: verdict}); err != nil {
		t.Fatal(err)
	}

	if verdict == broker.Complete {
		m.done++
	}
}

func (m *expiring) receiveDeferred(t *rapid.T) {
	h, q := m.pick(t), m.queue.Direct()

	for _, b := range q.Peek(h.receiver, 0, m.sent) {
		if b.Stamp.State != message.Deferred {
			continue
		}

		late := !b.Stamp.EnqueuedAt.Add(lock / 2).After(time.Now())

		got, err := q.ReceiveDeferred(h.receiver, []int64{b.Stamp.SequenceNumber}, broker.PeekLock)
		if (err != nil) != late {
			t.Fatalf("receive of a deferred message, its time is over: %t: %v", late, err)
		}

		if late {
			continue
		}

		verdict := rapid.SampledFrom([]broker.Verdict{broker.Complete, broker.Abandon}).Draw(t, "verdict")
		if err := q.SettleToken(h.receiver, got[0].Stamp.LockToken, broker.Outcome{Verdict: verdict}); err != nil {
			t.Fatal(err)
		}

		if verdict == broker.Complete {
			m.done++
		}
	}
}

func (m *expiring) close(t *rapid.T) {
	h := m.pick(t)
	h.receiver.Close()
	m.drop(h)
}

func (m *expiring) drop(h *holder) {
	m.holders = slices.DeleteFunc(m.holders, func(o *holder) bool { return o == h })
}

func (m *expiring) advance(t *rapid.T) {
	<-time.After(time.Duration(rapid.IntRange(1, 20).Draw(t, "seconds")) * time.Second)
	synctest.Wait()

	for _, h := range slices.Clone(m.holders) {
		if h.detached != nil {
			m.drop(h)
		}
	}
}

func (m *expiring) check(t *rapid.T) {
	q := m.queue.Direct()
	c := q.Counts()

	if kept := c.Active + c.Deferred + c.DeadLettered; m.sent != m.done+kept {
		t.Fatalf("%d were sent, %d are done and %d kept: %+v", m.sent, m.done, kept, c)
	}

	if peeked := len(q.Peek(nil, 0, m.sent+1)); peeked != c.Active+c.Deferred {
		t.Fatalf("%d are to be seen of %+v", peeked, c)
	}

	available := 0

	for _, s := range q.SessionInfos() {
		available += s.Available

		if !s.Locked && s.Messages == 0 && s.Deferred == 0 {
			t.Fatalf("session %s is left over", s.ID)
		}
	}

	if available != c.Active-c.Locked {
		t.Fatalf("%d are available of %+v", available, c)
	}
}
