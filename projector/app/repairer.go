package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
)

// newRepairer returns the engine's access to the event store. If event ids only increase,
// an event that breaks the contract is skipped, as in the live stream and in a build: it is
// in the publisher's quarantine. In a strict sequence it is a gap that parks its aggregate.
func newRepairer(sequence event.Sequence, reader *eventstore.Reader, registerer prometheus.Registerer) engine.Repairer {
	if sequence != event.SequenceIncreasing {
		return reader
	}
	return passingRepairer{reader, obs.Counter(registerer, "penstock_projector_unreadable_events_total",
		"Events of the event store that break the event contract and were skipped while an aggregate was read, with PENSTOCK_SEQUENCE=increasing. An aggregate that is read again counts them again.")}
}

// passingRepairer skips events that break the contract, and counts them.
type passingRepairer struct {
	reader     *eventstore.Reader
	unreadable prometheus.Counter
}

// Missing reads the events of an aggregate between from and to.
func (r passingRepairer) Missing(ctx context.Context, ev *event.Event, from, to int64, limit int) ([]*event.Event, error) {
	events, broken, err := r.reader.Readable(ctx, ev, from, to, limit)
	r.unreadable.Add(float64(broken))
	return events, err
}
