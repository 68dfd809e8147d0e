package broker

import (
	"time"
	"unicode/utf16"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/message"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// intake is the part that topics and queues share: refusal of invalid messages, duplicate
// detection, and the record of accepted messages.
type intake struct {
	path    string
	cfg     IntakeConfig
	history *history
	record  record
}

func newIntake(path string, cfg IntakeConfig) intake {
	in := intake{path: path, cfg: cfg, record: record{limit: cfg.Record}}

	if cfg.DuplicateDetectionWindow > 0 {
		in.history = newHistory(cfg.DuplicateDetectionWindow)
	}

	return in
}

// refuse returns why messages that were sent together are not accepted, or nil. If one
// message is refused, all are (Azure/azure-service-bus#103).
func (in *intake) refuse(msgs []*message.Message, requiresSession bool) *wire.Error {
	if in.cfg.Disabled {
		return wire.Errorf(CondEntityDisabled, "Messaging entity '%s' is currently disabled.", in.path)
	}

	for _, m := range msgs {
		if err := in.refuseOne(m, requiresSession); err != nil {
			return err
		}
	}

	if in.cfg.Partitioned && len(msgs) > 1 {
		return in.refusePartitionedBatch(msgs)
	}

	return nil
}

func (in *intake) refuseOne(m *message.Message, requiresSession bool) *wire.Error {
	for _, id := range [...]struct{ name, value string }{{"MessageId", m.ID}, {"SessionId", m.SessionID}, {"PartitionKey", m.PartitionKey}} {
		if err := refuseID(id.name, id.value); err != nil {
			return err
		}
	}

	switch {
	case m.HasSession && m.HasPartitionKey && m.SessionID != m.PartitionKey:
		return wire.Errorf(CondNotAllowed, "The PartitionKey '%s' of a message must be the same as its SessionId '%s'.", m.PartitionKey, m.SessionID)
	case requiresSession && !m.HasSession:
		return wire.Errorf(CondNotAllowed, "The SessionId was not set on a message, and it cannot be sent to the entity. "+
			"Entities that have session support enabled can only receive messages that have the SessionId set to a valid value.")
	}

	if _, keyed := partitionKey(m); in.cfg.Partitioned && in.history != nil && !keyed && m.AssignedID {
		return wire.Errorf(CondNotAllowed,
			"Message to a partitioned entity with duplicate detection enabled must have either PartitionKey or MessageId set.")
	}

	return nil
}

// refuseID returns why an id is refused, or nil.
func refuseID(name, id string) *wire.Error {
	if n := characters(id); n > MaxIDLength {
		return wire.Errorf(CondArgument, "The length of the %s is %d, which is over the limit of %d characters.", name, n, MaxIDLength)
	}

	return nil
}

// characters counts characters as the service does: in UTF-16 code units.
func characters(s string) int {
	if len(s) <= MaxIDLength {
		return len(s) // an upper bound that is within every limit
	}

	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}

	return n
}

// refusePartitionedBatch returns why a partitioned entity refuses a batch, or nil. All
// messages of a batch must have the same key. With duplicate detection, every batch is
// refused. Users reported these failures; whether Azure accepts a batch of one session
// there is not known.
func (in *intake) refusePartitionedBatch(msgs []*message.Message) *wire.Error {
	if in.history != nil {
		return wire.Errorf(CondNotAllowed, "Batching brokered messages with distinct SessionId, PartitionKey, or MessageId "+
			"is not supported for an entity with partitioning and duplicate detection enabled.")
	}

	first, keyed := partitionKey(msgs[0])

	for _, m := range msgs {
		if key, ok := partitionKey(m); !ok || !keyed || key != first {
			return wire.Errorf(CondNotAllowed, "Batching brokered messages with distinct SessionId or PartitionKey "+
				"is not supported for an entity with partitioning enabled.")
		}
	}

	return nil
}

// duplicate reports whether the message was accepted before, within the detection window.
func (in *intake) duplicate(m *message.Message, now time.Time) bool {
	if in.history == nil {
		return false
	}

	id := m.ID

	if in.cfg.Partitioned {
		key, _ := partitionKey(m)
		id += "\x00" + key
	}

	if !in.history.duplicate(id, now) {
		return false
	}

	in.record.duplicate(m)

	return true
}
