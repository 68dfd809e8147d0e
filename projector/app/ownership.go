package app

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/drain"
	"github.com/penstock-cdc/penstock/projector/internal/operate"
)

// own makes this pipeline the owner of the names that only one pipeline may use. It fails
// if another pipeline owns one of them.
//
// An owner is permanent. So if the subscription has no owner yet, the broker must first give
// sessions of it. Otherwise a misspelt subscription would own the names, and the corrected one
// would be refused. A later start does not wait for the broker here.
func (p *Projector) own(ctx context.Context, s *config.Stores) error {
	var unowned []catalog.Place
	if err := p.bind(ctx, s, func(ctx context.Context, places []catalog.Place) (err error) {
		unowned, err = catalog.CheckNames(ctx, places)
		return err
	}); err != nil {
		return err
	}
	drained := func(n catalog.OwnedName) bool { return n.Kind == operate.OwnedSubscription }
	if slices.ContainsFunc(unowned, func(place catalog.Place) bool { return slices.ContainsFunc(place.Names, drained) }) {
		if err := p.awaitSubscription(ctx); err != nil {
			return err
		}
	}
	return p.bind(ctx, s, func(ctx context.Context, places []catalog.Place) error {
		return catalog.TakeNames(ctx, places, p.logger)
	})
}

// bind calls do with the names of this pipeline, until do succeeds or another pipeline owns
// one of them.
func (p *Projector) bind(ctx context.Context, s *config.Stores, do func(context.Context, []catalog.Place) error) error {
	var refusal error
	err := p.repeat(ctx, "bind the projections to this pipeline", p.config.MongoDB.ReadModels(), func(ctx context.Context) error {
		places, err := operate.Owned(ctx, &p.config, p.projections, s)
		if err != nil {
			return err
		}
		err = do(ctx, places)
		if errors.Is(err, catalog.ErrOwned) {
			refusal = operate.ExplainOwner(err)
			return nil
		}
		return err
	})
	return errors.Join(refusal, err)
}

// awaitSubscription waits until the broker has shown that it gives sessions of the
// subscription. It fails if the broker refuses them. It receives nothing, so it may run in a
// pause.
func (p *Projector) awaitSubscription(ctx context.Context) error {
	sb := p.config.ServiceBus
	what := fmt.Sprintf("reach subscription %s of topic %s at %s", sb.Subscription, sb.Topic, sb.Host())
	p.startup.retry(what, nil)
	namespace, err := sbus.Open(sb.Config)
	if err != nil {
		return err
	}
	err = drain.Await(ctx, operate.Dial(sb, namespace, p.logger), func(err error) {
		p.startup.retry(what, err)
		p.logger.Warn().Err(err).Str("waitsTo", what).Stringer("class", sbus.Classify(err)).Msg("session not accepted; retrying")
	})
	return p.explain(err)
}
