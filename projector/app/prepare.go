package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-cdc/penstock/pkg/backoff"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

// prepare waits for the stores and makes the collections. Trouble that passes is
// waited for.
func (p *Projector) prepare(ctx context.Context, s *stores) error {
	if err := s.await(ctx, p.logger, &p.startup); err != nil {
		return err
	}
	if err := p.own(ctx, s); err != nil {
		return err
	}
	for _, step := range []struct {
		what  string
		where mongox.Store
		do    func(context.Context) error
	}{
		{"make the collections and indexes of the read models", p.config.MongoDB.ReadModels(), func(ctx context.Context) error {
			if err := readmodel.Prepare(ctx, s.readModels, collections(p.projections)); err != nil {
				return err
			}
			return readmodel.CheckLayout(ctx, s.readModels, collections(p.projections))
		}},
		{"compare the projections with those that have run before", p.config.MongoDB.ReadModels(), func(ctx context.Context) error { return p.checkNew(ctx, s) }},
		{"make the indexes of the parking list", p.config.MongoDB.State(), func(ctx context.Context) error { return park.Prepare(ctx, s.parked.Indexes()) }},
		{"make the indexes of the jobs", p.config.MongoDB.State(), func(ctx context.Context) error { return job.NewStore(s.state(), job.Options{}).Prepare(ctx) }},
	} {
		if err := p.repeat(ctx, step.what, step.where, step.do); err != nil {
			return err
		}
	}
	return nil
}

// repeat prepares a store, and retries as long as the error may be transient. what is
// an infinitive for the log and /readyz.
func (p *Projector) repeat(ctx context.Context, what string, where mongox.Store, do func(context.Context) error) error {
	what = fmt.Sprintf("%s at %s", what, where)
	defer p.startup.begin(what, p.logger)()
	for {
		attempt, cancel := mongox.Patient(ctx, attemptTimeout)
		err := mongox.Explain(attempt, do(attempt))
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, readmodel.ErrLayout), errors.Is(err, errNewProjection):
			return fmt.Errorf("prepare %s: %w", where, err)
		case !mongox.Transient(err):
			return fmt.Errorf("prepare %s: %w; the user needs the role readWrite on that database", where, err)
		}
		p.startup.retry(what, err)
		p.logger.Warn().Err(err).Stringer("store", where).Str("waitsTo", what).Msg("store not prepared; retrying")
		if err := backoff.Wait(ctx, attemptPause); err != nil {
			return err
		}
	}
}

// errNewProjection says that a projection would start in the middle of the events.
var errNewProjection = errors.New("the projection has no read model although the event store has events, and with PENSTOCK_SEQUENCE=increasing the events that it has missed cannot be detected; if the topic still brings every event, set PENSTOCK_NEW_PROJECTIONS=accept for its first start")

// checkNew refuses projections that are new on a running system if event ids only
// increase: the events that the topic no longer has would be missing from their read
// models, and nobody could detect that. Projections that have started before, or that
// start with an empty event store, are recorded.
func (p *Projector) checkNew(ctx context.Context, s *stores) error {
	if event.Sequence(p.config.Projections.Sequence) != event.SequenceIncreasing {
		return nil
	}
	var problems []error
	for _, projection := range p.projections {
		known, err := readmodel.Known(ctx, s.readModels, projection.Name(), projection.Collection())
		if err != nil {
			return err
		}
		if !known && p.config.Projections.New != config.NewAccept {
			empty, err := s.noEvents(ctx)
			if err != nil {
				return err
			}
			if !empty {
				problems = append(problems, fmt.Errorf("projection %s: %w", projection.Name(), errNewProjection))
				continue
			}
		}
		if err := readmodel.Record(ctx, s.readModels, projection.Name()); err != nil {
			return err
		}
	}
	return errors.Join(problems...)
}
