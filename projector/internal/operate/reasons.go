package operate

import (
	"github.com/penstock-cdc/penstock/projector/internal/drain"
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

// DeadLetterReasons are the reasons for which the broker and the projectors dead-letter
// messages.
func DeadLetterReasons() []string {
	return []string{deadDeliveries, deadExpired, drain.ReasonInvalidMessageFormat}
}
