package deadletter

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/pkg/sbus"
)

const (
	// passTimeout bounds a pass.
	passTimeout = 30 * time.Second
	// quiet is how long a pass waits for the next message. If a message that it has seen
	// does not come, another receiver has locked it.
	quiet = 2 * time.Second
	// receivePage is the number of messages requested at once. With more than one, the
	// SDK returns 20 ms after the first, and the link locks messages that the pass does
	// not receive.
	receivePage = 1
	// returnTimeout bounds unlocking a message at the end. If that fails, the lock
	// expires.
	returnTimeout = 5 * time.Second
)

// Aggregate names the aggregate of a dead letter.
type Aggregate struct {
	ID string
	// Raw is the id with its type in the event store.
	Raw bson.RawValue
	// Type is the aggregate type; empty if the event has none.
	Type string
}

// Applier brings read models up to date from the event store.
type Applier interface {
	// Apply folds missing events of the aggregate from the event store, and then reports
	// whether every projection that the aggregate concerns has the event. It does not
	// fold parked aggregates, so their read models lack the event. An error is transient.
	Apply(ctx context.Context, a Aggregate, eventID int64) (bool, error)
}

// HealerOptions configure a [Healer].
type HealerOptions struct {
	// Dial opens a connection to the queue. Required.
	Dial func() (Queue, error)
	// Applier is required.
	Applier Applier
	// Reader reads the events. Required.
	Reader *event.Reader
	// Reasons are the dead-letter reasons of messages that can be healed: those of the
	// broker and those of parked aggregates. Other messages stay for an operator.
	Reasons []string
	// Limit bounds the messages that a pass looks at; 1,000 by default.
	Limit int
	// Registerer takes the metrics; nil for none.
	Registerer prometheus.Registerer
	// Logger is silent by default.
	Logger zerolog.Logger
}

// Healer removes dead letters whose events have been folded from the event store. Make it
// with [NewHealer]. It is not safe for concurrent use.
type Healer struct {
	options    HealerOptions
	reasons    map[string]prometheus.Counter
	connection *sbus.Kept[Queue]
}

// NewHealer makes a healer. It makes no request.
func NewHealer(o HealerOptions) *Healer {
	o.Limit = cmp.Or(o.Limit, 1000)
	h := &Healer{options: o, reasons: make(map[string]prometheus.Counter), connection: sbus.Keep(o.Dial, o.Logger)}
	healed := obs.CounterVec[string](o.Registerer, "penstock_projector_dead_letters_healed_total",
		"Dead letters that were removed because every read model has their event, by the reason that they were dead-lettered for.", "reason")
	for _, reason := range o.Reasons {
		h.reasons[reason] = healed.WithLabelValues(reason)
	}
	return h
}

// Heal makes one pass over the queue. It peeks at the messages, lets the applier fold
// their aggregates, and then removes the messages whose event every read model has. It
// locks messages only if it can remove some. An error is transient; removed counts the
// messages that were removed before it.
func (h *Healer) Heal(ctx context.Context) (removed int, err error) {
	ctx, cancel := mongox.Timeout(ctx, passTimeout)
	defer cancel()
	err = h.connection.Use(ctx, func(q Queue) error {
		healed, err := h.apply(ctx, q)
		if err != nil || len(healed) == 0 {
			return err
		}
		counts := make(map[string]int)
		n, err := remove(ctx, q, healed, h.options.Limit, h.options.Logger, func(reason string) {
			counts[reason]++
			h.reasons[reason].Inc()
		})
		if n > 0 {
			h.options.Logger.Info().Any("reasons", counts).Msg("removed dead letters: every read model has their event")
		}
		removed += n
		return err
	})
	return removed, err
}

// Close closes the connection.
func (h *Healer) Close() { h.connection.Close() }

// apply lets the applier fold the aggregates of dead letters, and returns the sequence
// numbers of the messages whose event every read model has. It removes no message, so
// their order does not matter.
func (h *Healer) apply(ctx context.Context, q Queue) (map[int64]bool, error) {
	type letter struct {
		sequence, eventID int64
	}
	letters := make(map[string][]letter)
	aggregates := make(map[string]Aggregate)
	err := pages(ctx, q, h.options.Limit, func(m *Message) {
		if h.reasons[m.Reason] == nil {
			return
		}
		if a, eventID, ok := h.read(m); ok {
			aggregates[a.ID] = a
			letters[a.ID] = append(letters[a.ID], letter{m.Sequence, eventID})
		}
	})
	if err != nil {
		return nil, err
	}
	healed := make(map[int64]bool)
	var troubles []error
	for id, a := range aggregates {
		// A read model that has an event also has the earlier ones, so start with the
		// last.
		slices.SortFunc(letters[id], func(x, y letter) int { return cmp.Compare(y.eventID, x.eventID) })
		has := false
		for _, l := range letters[id] {
			if !has {
				if has, err = h.options.Applier.Apply(ctx, a, l.eventID); err != nil {
					troubles = append(troubles, fmt.Errorf("bring aggregate %q up to date: %w", id, err))
					break
				}
			}
			if has {
				healed[l.sequence] = true
			}
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	if len(troubles) > 0 {
		// An error of one aggregate does not stop the others.
		h.options.Logger.Warn().Err(troubles[0]).Int("aggregates", len(troubles)).Msg("aggregates of dead letters not brought up to date; retrying")
	}
	return healed, nil
}

// read reads the event of a message.
func (h *Healer) read(m *Message) (a Aggregate, eventID int64, ok bool) {
	document, err := event.DecodeBody(m.ContentType, m.Body)
	if err != nil {
		return a, 0, false
	}
	ev, err := h.options.Reader.Read(document)
	if err != nil {
		return a, 0, false
	}
	raw := bson.RawValue{Type: ev.RawAggregateID.Type, Value: append([]byte(nil), ev.RawAggregateID.Value...)}
	return Aggregate{ID: ev.AggregateID, Raw: raw, Type: ev.AggregateType}, ev.EventID, true
}
