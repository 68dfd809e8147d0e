package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/drain"
)

// watchReading makes the process not ready while it has received messages, and none of them
// was an event.
func (p *Projector) watchReading(h *health.Health, acceptor *drain.Acceptor) {
	h.Watch("unreadable", func(context.Context) []health.Condition {
		err := acceptor.Unreadable()
		if err == nil {
			return nil
		}
		return []health.Condition{{
			Name: "unreadable", State: health.NotReady,
			Text:   fmt.Sprintf("no message of topic %s that this process has received is an event: %v", p.config.ServiceBus.Topic, err),
			Remedy: fmt.Sprintf("The messages stay in the subscription until this process has read an event. Check %s, and that the topic carries only its events.", p.fieldSetting(err)),
		}}
	})
	obs.GaugeFunc(p.registry, "penstock_projector_unreadable",
		"1 while this process has received messages, and none of them was an event: they stay in the subscription until it has read one. 0 otherwise.", func() float64 {
			if acceptor.Unreadable() != nil {
				return 1
			}
			return 0
		})
}

// misread reports whether an event breaks the contract because event ids begin elsewhere than
// configured, and ends draining then. So no read model is written without its first event.
func (p *Projector) misread(ctx context.Context, s *config.Stores, invalid error, end context.CancelCauseFunc) bool {
	broken, ok := errors.AsType[*event.ContractError](invalid)
	if !ok || broken.Reason != event.ReasonOutOfRange {
		return false
	}
	events := eventstore.NewReader(s.Events, p.config.EventFields(), p.logger)
	checking, cancel := mongox.Timeout(ctx, config.AttemptTimeout)
	defer cancel()
	err := events.CheckFirstID(checking)
	if !errors.Is(err, eventstore.ErrFirstID) {
		return false
	}
	end(err)
	return true
}

// fieldSetting names the setting of the field that a message lacks.
func (p *Projector) fieldSetting(err error) string {
	if broken, ok := errors.AsType[*event.ContractError](err); ok && broken.Field != "" {
		if variable := p.config.Fields.Variable(broken.Field); variable != "" {
			return fmt.Sprintf("%s, which is %q and must be the same as in the publisher", variable, broken.Field)
		}
	}
	return "PENSTOCK_FIELD_*, PENSTOCK_FIRST_EVENT_ID and the connection string's uuidRepresentation, which must be the same as in the publisher"
}
