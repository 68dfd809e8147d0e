package app

import (
	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/projector/internal/deadletter"
	"github.com/penstock-cdc/penstock/projector/internal/operate"
)

// deadLetters makes the counter of dead letters.
func (p *Projector) deadLetters(subscription sbus.Subscription) *deadletter.Counter {
	return deadletter.New(deadletter.Options{
		Dial:       deadletter.Dial(subscription),
		Interval:   p.config.Backlog.Interval,
		Reasons:    operate.DeadLetterReasons(),
		Registerer: p.registry,
		Logger:     p.logger,
	})
}
