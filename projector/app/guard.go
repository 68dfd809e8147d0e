package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/drain"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/guard"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// newReading makes the judge of messages that are not events.
func (p *Projector) newReading(h *health.Health) *guard.Reading {
	r := guard.NewReading(func(err error) {
		if err == nil {
			p.logger.Info().Msg("messages are events again; the others are dead-lettered")
			return
		}
		p.logger.Error().Err(err).Msg("messages that are not events stay in the subscription until one is an event")
	})
	h.Watch("breaker", func(context.Context) []health.Condition {
		err, read := r.Err()
		switch {
		case err == nil:
			return nil
		case read:
			return []health.Condition{{Name: "breaker", State: health.Degraded, Text: err.Error()}}
		}
		return []health.Condition{{Name: "breaker", State: health.NotReady, Text: err.Error()}}
	})
	obs.GaugeFunc(p.registry, "penstock_projector_breaker_open",
		"1 if the last messages that this process received are not events, so that it dead-letters no more of them until one is an event; 0 otherwise.", func() float64 {
			if err, _ := r.Err(); err != nil {
				return 1
			}
			return 0
		})
	return r
}

// messageJudge judges messages that are not events.
type messageJudge struct {
	reading *guard.Reading
	config  config.Config
}

var _ drain.Judge = messageJudge{}

func (j messageJudge) Good() { j.reading.Good() }

func (j messageJudge) Bad(messageID string, err error) bool {
	return j.config.Projections.FailureLimit >= 1 || j.reading.Bad(messageID, func(n int) error {
		return fmt.Errorf("the last %d messages of topic %s are not events: %w. Check %s, and that the topic carries only its events. "+
			"The messages stay in the subscription until one of them is an event; restart with the right settings, or with PENSTOCK_FAILURE_LIMIT=1 to dead-letter them", n, j.config.ServiceBus.Topic, err, j.setting(err))
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
	rules *guard.Rules
	log   zerolog.Logger
}

var _ engine.Judge = handlerJudge{}

func (j handlerJudge) Good(projection, eventType string) {
	j.rules.Good(guard.Rule{Projection: projection, EventType: eventType})
}

func (j handlerJudge) Bad(failure *projection.Error) model.Judgement {
	id := event.MessageID(failure.AggregateID, failure.EventID)
	judgement, first := j.rules.Bad(guard.Rule{Projection: failure.Projection, EventType: failure.EventType}, id)
	if first {
		j.log.Error().Err(failure).Str("projection", failure.Projection).Str("eventType", failure.EventType).Str("reason", string(failure.Reason)).
			Msg("a projection fails for most recent events of a type; their aggregates are parked and resume by themselves when the projection is corrected")
	}
	return judgement
}
