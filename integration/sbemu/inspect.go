package sbemu

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"
)

// Errors of inspection and of faults.
var (
	ErrNotFound  = errors.New("no such entity")
	ErrNotLocked = errors.New("session is not locked")
)

// Accepted is the record of a message that a topic or queue accepted.
type Accepted = broker.Accepted

// Counts are the numbers of messages of a queue or subscription by state.
type Counts = broker.Counts

// Session is a message session at one moment.
type Session = broker.SessionInfo

// Totals are the messages that a topic or queue has received since the start.
type Totals struct {
	Accepted   int64 `json:"accepted"`   // without duplicates
	Duplicates int64 `json:"duplicates"` // acknowledged and dropped
	Scheduled  int   `json:"scheduled"`  // of a topic: not yet enqueued
}

// Message is a message in a queue or subscription.
type Message struct {
	SequenceNumber        int64          `json:"sequenceNumber"`
	MessageID             string         `json:"messageId"`
	SessionID             string         `json:"sessionId"`
	DeliveryCount         uint32         `json:"deliveryCount"` // ended deliveries that count
	EnqueuedAt            time.Time      `json:"enqueuedAt"`
	Locked                bool           `json:"locked"`
	ApplicationProperties map[string]any `json:"applicationProperties"`
}

// Accepted returns the last messages that a topic or queue accepted, in order. The entity's
// Record limits their number.
func (s *Server) Accepted(entity string) ([]Accepted, error) {
	d := s.namespace.Destination(entity)
	if d == nil {
		return nil, fmt.Errorf("%w: %q", ErrNotFound, entity)
	}

	return d.Accepted(), nil
}

// Totals returns the messages that a topic or queue has received since the start.
func (s *Server) Totals(entity string) (Totals, error) {
	d := s.namespace.Destination(entity)
	if d == nil {
		return Totals{}, fmt.Errorf("%w: %q", ErrNotFound, entity)
	}

	accepted, duplicates := d.Totals()

	return Totals{Accepted: accepted, Duplicates: duplicates, Scheduled: d.Pending()}, nil
}

// Counts returns the numbers of messages by state, of a queue or subscription such as
// "events/Subscriptions/projector". It also works for a dead-letter queue
// ("…/$DeadLetterQueue").
func (s *Server) Counts(queue string) (Counts, error) {
	q, err := s.queue(queue)
	if err != nil {
		return Counts{}, err
	}

	return q.Counts(), nil
}

// Sessions returns the sessions of a queue or subscription that have messages or state, or
// are locked, sorted by id.
func (s *Server) Sessions(queue string) ([]Session, error) {
	q, err := s.queue(queue)
	if err != nil {
		return nil, err
	}

	return q.SessionInfos(), nil
}

// Messages returns up to limit messages of a queue, subscription or
// dead-letter queue from a sequence number on.
func (s *Server) Messages(queue string, from int64, limit int) ([]Message, error) {
	q, err := s.queue(queue)
	if err != nil {
		return nil, err
	}

	var out []Message

	for _, b := range q.Peek(nil, from, limit) {
		m := Message{
			SequenceNumber:        b.Stamp.SequenceNumber,
			MessageID:             b.Message.ID,
			SessionID:             b.Message.SessionID,
			DeliveryCount:         b.Stamp.DeliveryCount,
			EnqueuedAt:            b.Stamp.EnqueuedAt,
			Locked:                !b.Stamp.LockedUntil.IsZero(),
			ApplicationProperties: make(map[string]any),
		}

		for _, p := range b.Message.ApplicationProperties() {
			if key, ok := wire.Text(p.Key); ok {
				m.ApplicationProperties[key] = plain(p.Value)
			}
		}

		out = append(out, m)
	}

	return out, nil
}

// plain converts a property's value for JSON.
func plain(v any) any {
	switch v := v.(type) {
	case wire.Symbol:
		return string(v)
	case wire.Timestamp:
		return time.UnixMilli(int64(v)).UTC()
	case wire.UUID:
		return fmt.Sprintf("%x-%x-%x-%x-%x", v[:4], v[4:6], v[6:8], v[8:10], v[10:])
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Sprint(v)
		}

		return v
	case float32:
		return plain(float64(v))
	default:
		return v
	}
}

// Connections returns the open connections, sorted by id.
func (s *Server) Connections() []Connection { return s.front.Connections() }
