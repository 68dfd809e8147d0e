package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/drain"
	"github.com/penstock-cdc/penstock/projector/internal/guard"
	"github.com/penstock-cdc/penstock/projector/internal/project"
)

// guard makes the guard of this process. If it trips, it ends draining.
func (p *Projector) guard(end context.CancelCauseFunc) *guard.Guard {
	g := guard.New(guard.Options{
		Share: p.config.Projections.FailureLimit,
		Tripped: func(err error) {
			p.logger.Error().Err(err).Msg("too much of the input fails; nothing more is settled until a restart")
			end(err)
		},
	})
	p.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "penstock_projector_breaker_open",
		Help: "1 if this process has stopped because too much of its input fails, 0 otherwise; /readyz names the rule.",
	}, func() float64 {
		if g.Err() != nil {
			return 1
		}
		return 0
	}))
	return g
}

// standStill waits until the process is stopped, after the guard has tripped. The process
// neither drains nor exits: after a restart it would receive the messages again, and each
// delivery brings them closer to the dead-letter queue.
func (p *Projector) standStill(ctx, background context.Context, drained error) error {
	if drained != nil {
		p.logger.Warn().Err(drained).Msg("stopped draining with work unfinished")
	}
	select {
	case <-ctx.Done():
		return nil
	case <-background.Done():
		return errBackgroundEnded
	}
}

// messageJudge judges messages that are not events.
type messageJudge struct {
	guard  *guard.Guard
	config config.Config
}

var _ drain.Judge = messageJudge{}

func (j messageJudge) Good(messages int) { j.guard.Good(guard.Rule{}, messages) }

func (j messageJudge) Bad(messageID string, err error) bool {
	return j.guard.Bad(guard.Rule{}, messageID, func(bad, recent int) error {
		return fmt.Errorf("%d of the last %d messages of topic %s are not events: %w. Check %s, and that the topic carries only its events. "+
			"The messages stay in the subscription; restart with the right settings, or with PENSTOCK_FAILURE_LIMIT=1 to dead-letter them", bad, recent, j.config.ServiceBus.Topic, err, j.setting(err))
	})
}

// setting names the setting of the field that a message lacks.
func (j messageJudge) setting(err error) string {
	if broken, ok := errors.AsType[*event.ContractError](err); ok && broken.Field != "" {
		if variable := j.config.Fields.Variable(broken.Field); variable != "" {
			return fmt.Sprintf("%s, which is %q and must be the same as in the publisher", variable, broken.Field)
		}
	}
	return "PENSTOCK_FIELD_*, which must be the same as in the publisher"
}

// handlerJudge judges events that a projection cannot apply.
type handlerJudge struct {
	guard *guard.Guard
}

var _ project.Judge = handlerJudge{}

func (j handlerJudge) Good(projection, eventType string) {
	j.guard.Good(guard.Rule{Projection: projection, EventType: eventType}, 1)
}

func (j handlerJudge) Bad(failure *project.Error) bool {
	rule := guard.Rule{Projection: failure.Projection, EventType: failure.EventType}
	id := fmt.Sprintf("%s/%d", failure.AggregateID, failure.EventID)
	return j.guard.Bad(rule, id, func(bad, recent int) error {
		return fmt.Errorf("projection %s cannot apply %d of the last %d events of type %s (%s): %w. Correct the projection and roll it out. "+
			"The events stay in the subscription; set PENSTOCK_FAILURE_LIMIT=1 to park their aggregates instead", rule.Projection, bad, recent, rule.EventType, failure.Reason, failure)
	})
}
