package message

import (
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// Annotations that the broker owns: a sender's values are dropped.
const (
	annotationSequenceNumber         = "x-opt-sequence-number"
	annotationEnqueuedTime           = "x-opt-enqueued-time"
	annotationLockedUntil            = "x-opt-locked-until"
	annotationEnqueuedSequenceNumber = "x-opt-enqueue-sequence-number"
	annotationMessageState           = "x-opt-message-state"
	annotationLockToken              = "x-opt-lock-token"
)

// Sender annotations that the broker reads.
const (
	annotationPartitionKey    = "x-opt-partition-key"
	annotationViaPartitionKey = "x-opt-via-partition-key"
	annotationScheduled       = "x-opt-scheduled-enqueue-time"
	annotationDeadLetter      = "x-opt-deadletter-source"
)

// BatchFormat is the message format of a transfer whose data sections are
// messages (azservicebus, message_batch.go).
const BatchFormat = 0x80013700

// Message is a message as a sender sent it. It never changes.
type Message struct {
	// ID is the message id as text, the form in which duplicate detection compares it.
	ID string

	// AssignedID means that the sender set no id and the broker assigned one.
	AssignedID bool

	// SessionID is the group-id; HasSession distinguishes "" from none.
	SessionID  string
	HasSession bool

	// PartitionKey is x-opt-partition-key; HasPartitionKey distinguishes "" from none.
	PartitionKey    string
	HasPartitionKey bool

	// ScheduledAt is when the message must be enqueued, zero: now.
	ScheduledAt time.Time

	// TTL is the time to live that the sender set, zero: none.
	TTL time.Duration

	// Size is the encoded size in bytes as sent. For a changed message, it is the size
	// that the sender's encoding of the new content would have. With a stamp the encoding
	// is up to [StampSize] larger.
	Size int

	// Hops is how often the message was forwarded.
	Hops int

	durable        bool
	priority       uint8
	hasPriority    bool
	delivery       entries // delivery annotations
	annotations    entries // message annotations
	properties     []byte  // whole section, including the descriptor
	applicationRaw []byte  // likewise
	body           []byte  // body sections and footer
}

// StampSize is more than [Message.Append] adds to a message's size.
const StampSize = 384

// entries are the encoded entries of a map.
type entries struct {
	raw   []byte
	count int // keys plus values
}

// State is the state of a message in its queue, the value of x-opt-message-state.
type State int32

// The states of x-opt-message-state.
const (
	Active    State = 0
	Deferred  State = 1
	Scheduled State = 2
)

// Stamp is the data that the broker adds to a message when it delivers the message.
type Stamp struct {
	DeliveryCount    uint32
	SequenceNumber   int64
	EnqueuedSequence int64 // 0: none
	EnqueuedAt       time.Time
	LockedUntil      time.Time // zero: not locked
	LockToken        wire.UUID // zero: none
	State            State
}

// Append appends the message with the stamp.
func (m *Message) Append(b []byte, s *Stamp) []byte {
	b = m.appendHeader(b, s.DeliveryCount)

	locked := s.LockToken != wire.UUID{}
	if locked || m.delivery.count > 0 {
		var at int

		n := m.delivery.count
		b, at = wire.BeginMap(wire.AppendDescriptor(b, wire.CodeDeliveryAnnotations))
		b = append(b, m.delivery.raw...)

		if locked {
			b = wire.AppendUUID(wire.AppendSymbol(b, annotationLockToken), s.LockToken)
			n += 2
		}

		b = wire.EndCompound(b, at, n)
	}

	b, at := wire.BeginMap(wire.AppendDescriptor(b, wire.CodeMessageAnnotations))
	n := m.annotations.count + 4
	b = append(b, m.annotations.raw...)
	b = wire.AppendLong(wire.AppendSymbol(b, annotationSequenceNumber), s.SequenceNumber)
	b = appendTime(b, annotationEnqueuedTime, s.EnqueuedAt)

	if s.EnqueuedSequence != 0 {
		b = wire.AppendLong(wire.AppendSymbol(b, annotationEnqueuedSequenceNumber), s.EnqueuedSequence)
		n += 2
	}

	if !s.LockedUntil.IsZero() {
		b = appendTime(b, annotationLockedUntil, s.LockedUntil)
		n += 2
	}

	if s.State != Active {
		b = wire.AppendValue(wire.AppendSymbol(b, annotationMessageState), int32(s.State))
		n += 2
	}

	b = wire.EndCompound(b, at, n)
	b = append(b, m.properties...)
	b = append(b, m.applicationRaw...)

	return append(b, m.body...)
}

// Data returns the first data section without copying it; nil if the body has none.
func (m *Message) Data() []byte {
	d := wire.NewDecoder(m.body)
	if len(m.body) == 0 || d.Descriptor() != wire.CodeData {
		return nil
	}

	return d.Binary()
}

func (m *Message) appendHeader(b []byte, deliveryCount uint32) []byte {
	b, at := wire.BeginList(wire.AppendDescriptor(b, wire.CodeHeader))
	b = wire.AppendBool(b, m.durable)

	if m.hasPriority {
		b = wire.AppendUbyte(b, m.priority)
	} else {
		b = wire.AppendNull(b)
	}

	if m.TTL > 0 {
		b = wire.AppendUint(b, uint32(m.TTL/time.Millisecond))
	} else {
		b = wire.AppendNull(b)
	}

	b = wire.AppendBool(b, false) // first-acquirer
	b = wire.AppendUint(b, deliveryCount)

	return wire.EndCompound(b, at, 5)
}

func appendTime(b []byte, key wire.Symbol, t time.Time) []byte {
	return wire.AppendTimestamp(wire.AppendSymbol(b, key), wire.Timestamp(t.UnixMilli()))
}

// ApplicationProperties decodes the application properties.
func (m *Message) ApplicationProperties() wire.Map {
	if len(m.applicationRaw) == 0 {
		return nil
	}

	d := wire.NewDecoder(m.applicationRaw)
	d.Descriptor()

	return d.Map()
}

// WithApplicationProperties returns a copy of m with added application properties. They
// replace properties of the same name.
func (m *Message) WithApplicationProperties(set wire.Map) *Message {
	if len(set) == 0 {
		return m
	}

	merged := append(wire.Map{}, m.ApplicationProperties()...)

	for _, p := range set {
		key, ok := wire.Text(p.Key)
		if !ok {
			continue
		}

		merged = replace(merged, key, p.Value)
	}

	return m.ReplaceApplicationProperties(merged)
}

// ReplaceApplicationProperties returns a copy of m with these application properties
// only.
func (m *Message) ReplaceApplicationProperties(properties wire.Map) *Message {
	out := *m
	out.applicationRaw = nil

	if len(properties) > 0 {
		out.applicationRaw = wire.AppendMap(wire.AppendDescriptor(nil, wire.CodeApplicationProperties), properties)
	}

	out.Size += len(out.applicationRaw) - len(m.applicationRaw)

	return &out
}

// Forwarded returns the message as forwarded to another entity. If it comes from a
// dead-letter queue, deadLetterSource is the queue that it was in, otherwise "".
func (m *Message) Forwarded(deadLetterSource string) *Message {
	out := *m
	out.Hops++
	out.ScheduledAt = time.Time{}

	if deadLetterSource != "" {
		raw := append([]byte(nil), m.annotations.raw...)
		raw = wire.AppendString(wire.AppendSymbol(raw, annotationDeadLetter), deadLetterSource)
		out.annotations = entries{raw: raw, count: m.annotations.count + 2}
		out.Size += len(raw) - len(m.annotations.raw)
	}

	return &out
}

func replace(m wire.Map, key string, value any) wire.Map {
	for i := range m {
		if k, ok := wire.Text(m[i].Key); ok && k == key {
			m[i].Value = value

			return m
		}
	}

	return append(m, wire.Pair{Key: key, Value: value})
}
