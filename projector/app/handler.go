package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/drain"
	"github.com/penstock-cdc/penstock/projector/internal/eventstore"
	"github.com/penstock-cdc/penstock/projector/internal/project"
)

// engine is the part of [project.Engine] that handling uses.
type engine interface {
	Process(ctx context.Context, events []*event.Event, gaps project.Gaps) ([]project.Result, error)
}

// wholeReader reads what a claim check stands for.
type wholeReader interface {
	Whole(ctx context.Context, ev *event.Event) (*event.Event, error)
}

// handler hands what is drained to the engine.
type handler struct {
	engine engine
	events wholeReader
	log    zerolog.Logger
}

var _ drain.Handler = (*handler)(nil)

// claimPortion bounds, but for the last event, the bytes of those whose claim checks
// a call redeems. They were too large for the topic: a batch of them might not fit
// into memory.
const claimPortion = 4 << 20

// errPortionFull says that an event's turn is in a later call.
var errPortionFull = errors.New("enough claim checks have been redeemed for one call")

// Handle redeems the claim checks of a batch and has the engine process it. An event
// whose claim check cannot be redeemed keeps the later ones of its aggregate back:
// they must not be projected as if it did not exist.
func (h *handler) Handle(ctx context.Context, batch []*drain.Delivery, repair bool) []drain.Verdict {
	ctx, cancel := mongox.Undated(ctx)
	defer cancel()
	verdicts := make([]drain.Verdict, len(batch))
	events := make([]*event.Event, 0, len(batch))
	places := make([]int, 0, len(batch))
	var stuck string
	var obstacle drain.Verdict
	redeemed := 0
	for i, d := range batch {
		ev := &d.Event
		if stuck == ev.AggregateID {
			verdicts[i] = obstacle
			continue
		}
		if d.ClaimCheck {
			var whole *event.Event
			err := errPortionFull
			if redeemed < claimPortion {
				whole, err = h.events.Whole(ctx, ev)
			}
			if err != nil {
				stuck, obstacle = ev.AggregateID, h.unredeemed(ctx, d, err)
				verdicts[i] = obstacle
				continue
			}
			redeemed += len(whole.Document)
			ev = whole
		}
		events = append(events, ev)
		places = append(places, i)
	}
	if len(events) == 0 {
		return verdicts
	}
	gaps := project.Hold
	if repair {
		gaps = project.Repair
	}
	results, err := h.engine.Process(ctx, events, gaps)
	if err != nil && ctx.Err() == nil {
		h.log.Warn().Err(err).Int("events", len(events)).Msg("a part of the events was not projected, trying again")
	}
	for i, result := range results {
		verdicts[places[i]] = verdict(result, err)
	}
	return verdicts
}

// unredeemed is the verdict on a claim check that could not be redeemed.
func (h *handler) unredeemed(ctx context.Context, d *drain.Delivery, err error) drain.Verdict {
	if errors.Is(err, eventstore.ErrNotFound) {
		// Draining says so, where it lasts.
		return drain.Verdict{Outcome: drain.Gap, Err: err}
	}
	if ctx.Err() == nil && !errors.Is(err, errPortionFull) {
		h.log.Warn().Err(err).Str("messageId", d.MessageID).Msg("claim check not redeemed, trying again")
	}
	return drain.Verdict{Outcome: drain.Retry, Err: err}
}

// verdict puts the engine's result in the terms of draining. err is why a result is
// pending.
func verdict(r project.Result, err error) drain.Verdict {
	switch r.Verdict {
	case project.Done:
		return drain.Verdict{Outcome: drain.Done}
	case project.Held:
		return drain.Verdict{Outcome: drain.Gap, Err: fmt.Errorf("event %d is missing", r.Missing)}
	case project.Poison:
		v := drain.Verdict{Outcome: drain.Poison, Reason: "poison"}
		for _, cause := range r.Causes {
			v.Reason = string(cause.Reason)
			v.Err = errors.Join(v.Err, cause)
		}
		return v
	default:
		return drain.Verdict{Outcome: drain.Retry, Err: err}
	}
}
