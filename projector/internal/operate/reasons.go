package operate

import (
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// The broker's reasons for dead letters:
// https://learn.microsoft.com/azure/service-bus-messaging/service-bus-dead-letter-queues
const (
	deadDeliveries = "MaxDeliveryCountExceeded"
	deadExpired    = "TTLExpiredException"
)

// Reasons returns the names of the reasons for which aggregates are parked.
func Reasons() []string {
	all := projection.Reasons()
	names := make([]string, len(all))
	for i, r := range all {
		names[i] = string(r)
	}
	return names
}

// Healable are the reasons of dead letters whose events the event store has: the broker's
// reasons, and those of parked aggregates.
func Healable() []string { return append(Reasons(), deadDeliveries, deadExpired) }
