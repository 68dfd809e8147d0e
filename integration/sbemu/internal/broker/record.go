package broker

import (
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/message"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// Accepted is the record of a message that a topic or queue accepted.
type Accepted struct {
	// SequenceNumber is the entity's number, 0 for a duplicate.
	SequenceNumber int64  `json:"sequenceNumber"`
	MessageID      string `json:"messageId"`
	SessionID      string `json:"sessionId"`

	// Epoch is the application property "epoch", 0 if the message has none.
	Epoch int64 `json:"epoch"`

	// Duplicate means that the message was acknowledged and dropped.
	Duplicate  bool      `json:"duplicate"`
	AcceptedAt time.Time `json:"acceptedAt"`

	// Body is the message's data, which must not be changed; nil if it has other sections.
	Body []byte `json:"-"`
}

// record keeps the last accepted messages, and counts all accepted messages.
type record struct {
	limit      int
	entries    []Accepted
	start      int // index of the oldest, once full
	accepted   int64
	duplicates int64
}

func (r *record) accept(m *message.Message, seq int64, now time.Time) {
	r.accepted++
	r.add(m, Accepted{SequenceNumber: seq, AcceptedAt: now})
}

func (r *record) duplicate(m *message.Message) {
	r.duplicates++
	r.add(m, Accepted{Duplicate: true, AcceptedAt: time.Now()})
}

func (r *record) add(m *message.Message, a Accepted) {
	if r.limit == 0 {
		return
	}

	a.MessageID, a.SessionID, a.Body = m.ID, m.SessionID, m.Data()

	if v, ok := m.ApplicationProperties().Get("epoch"); ok {
		a.Epoch, _ = wire.Integer(v)
	}

	if len(r.entries) < r.limit {
		r.entries = append(r.entries, a)

		return
	}

	r.entries[r.start] = a
	r.start = (r.start + 1) % r.limit
}

// list returns the entries in order.
func (r *record) list() []Accepted {
	return append(append([]Accepted{}, r.entries[r.start:]...), r.entries[:r.start]...)
}
