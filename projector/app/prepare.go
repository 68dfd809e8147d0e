package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/operate"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

// attemptPause is the pause between two attempts to reach a store.
const attemptPause = 2 * time.Second

// prepare waits for the stores and makes the collections. It retries after transient
// errors.
func (p *Projector) prepare(ctx context.Context, s *config.Stores) error {
	if err := p.await(ctx, s); err != nil {
		return err
	}
	if err := p.own(ctx, s); err != nil {
		return err
	}
	err := p.repeat(ctx, "make the collections of the read models", p.config.MongoDB.ReadModels(), func(ctx context.Context) error {
		if err := readmodel.Prepare(ctx, s.ReadModels, nil); err != nil {
			return err
		}
		return readmodel.CheckLayout(ctx, s.ReadModels, operate.Collections(p.projections))
	})
	// The index of a large collection can take hours, so these requests are not bound by the attempt.
	if err == nil && slices.ContainsFunc(p.projections, func(p *projection.Projection) bool { return p.View() != nil }) {
		err = p.repeat(ctx, "make the index of the views", p.config.MongoDB.ReadModels(), func(context.Context) error { return readmodel.PrepareViews(ctx, s.ReadModels) })
	}
	if err != nil {
		return err
	}
	return p.repeat(ctx, "make the indexes of the parking list", p.config.MongoDB.State(), func(context.Context) error { return park.Prepare(ctx, park.In(s.State)) })
}

// await waits until it reaches the stores and can read the event store. It fails if one of
// them is no replica set or refuses the credentials, or if event ids begin elsewhere than
// configured. Without this check, a wrong event store would show only at the first gap.
func (p *Projector) await(ctx context.Context, s *config.Stores) error {
	for _, client := range s.Needed {
		if err := p.awaitOne(ctx, client, func(ctx context.Context) error {
			return mongox.CheckReplicaSet(ctx, client.Client)
		}); err != nil {
			return err
		}
	}
	events := eventstore.NewReader(s.Events, p.config.EventFields(), p.logger)
	return p.awaitOne(ctx, s.Source, func(ctx context.Context) error {
		if _, err := s.NoEvents(ctx); err != nil { // tries to read one event
			return err
		}
		return events.CheckFirstID(ctx)
	})
}

// awaitOne repeats a check of a store until it succeeds, or until only an operator can fix
// the error.
func (p *Projector) awaitOne(ctx context.Context, client mongox.Client, check func(context.Context) error) error {
	what := fmt.Sprintf("reach the %s at %s", client.What, client.Store)
	defer p.startup.begin(what, p.logger)()
	for {
		attempt, cancel := mongox.Timeout(ctx, config.AttemptTimeout)
		err := mongox.Explain(attempt, check(attempt))
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case mongox.Unusable(err), errors.Is(err, eventstore.ErrFirstID):
			return fmt.Errorf("MongoDB at %s (%s): %w", client.Store, client.What, err)
		case mongox.HasCode(err, mongox.CodeAuthenticationFailed, mongox.CodeAtlasError) && !mongox.Transient(err):
			return fmt.Errorf("MongoDB at %s (%s) refuses the credentials: %w; %s", client.Store, client.What, err, mongox.RemedyCredentials)
		case mongox.HasCode(err, mongox.CodeUnauthorized):
			return fmt.Errorf("MongoDB at %s (%s) does not give the user the rights that the projector needs: %w; give it the role readWrite on the databases of the read models and the state, and read on that of the event store", client.Store, client.What, err)
		}
		p.startup.retry(what, err)
		p.logger.Warn().Err(err).Stringer("store", client.Store).Str("what", client.What).Msg("MongoDB cannot be reached; retrying")
		if err := poll.Wait(ctx, attemptPause); err != nil {
			return err
		}
	}
}

// repeat prepares a store, and retries as long as the error may be transient. what is an
// infinitive that completes "waits to" in the log and in /readyz.
func (p *Projector) repeat(ctx context.Context, what string, where mongox.Store, do func(context.Context) error) error {
	what = fmt.Sprintf("%s at %s", what, where)
	defer p.startup.begin(what, p.logger)()
	for {
		attempt, cancel := mongox.Timeout(ctx, config.AttemptTimeout)
		err := mongox.Explain(attempt, do(attempt))
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, readmodel.ErrLayout):
			return fmt.Errorf("prepare %s: %w", where, err)
		case mongox.AccessRefused(err) && !mongox.Transient(err):
			return fmt.Errorf("prepare %s: %w; the user needs the role readWrite on that database", where, err)
		case !mongox.Transient(err) && !errors.Is(err, catalog.ErrUnsettled):
			return fmt.Errorf("prepare %s: %w", where, err)
		}
		p.startup.retry(what, err)
		p.logger.Warn().Err(err).Stringer("store", where).Str("waitsTo", what).Msg("store not prepared; retrying")
		if err := poll.Wait(ctx, attemptPause); err != nil {
			return err
		}
	}
}
