package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-cdc/penstock/pkg/backoff"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/ownership"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

// prepare waits for the stores and makes the collections. It retries after transient
// errors.
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
			if err := readmodel.Prepare(ctx, s.readModels, nil); err != nil {
				return err
			}
			return readmodel.CheckLayout(ctx, s.readModels, collections(p.projections))
		}},
		{"make the indexes of the parking list", p.config.MongoDB.State(), func(ctx context.Context) error { return park.Prepare(ctx, s.parked) }},
	} {
		if err := p.repeat(ctx, step.what, step.where, step.do); err != nil {
			return err
		}
	}
	return nil
}

// repeat prepares a store, and retries as long as the error may be transient. what is an
// infinitive that completes "waits to" in the log and in /readyz.
func (p *Projector) repeat(ctx context.Context, what string, where mongox.Store, do func(context.Context) error) error {
	what = fmt.Sprintf("%s at %s", what, where)
	defer p.startup.begin(what, p.logger)()
	for {
		attempt, cancel := mongox.Timeout(ctx, attemptTimeout)
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
		case !mongox.Transient(err) && !errors.Is(err, ownership.ErrUnsettled):
			return fmt.Errorf("prepare %s: %w", where, err)
		}
		p.startup.retry(what, err)
		p.logger.Warn().Err(err).Stringer("store", where).Str("waitsTo", what).Msg("store not prepared; retrying")
		if err := backoff.Wait(ctx, attemptPause); err != nil {
			return err
		}
	}
}
