package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
)

// accessInterval is how often a process checks that MongoDB still accepts it.
const accessInterval = 10 * time.Second

// whileAccepted runs do, and ends its context when MongoDB has refused this process for
// PENSTOCK_FATAL_AFTER: only a restarted process can have new credentials. It returns that
// refusal, otherwise do's error.
func (p *Projector) whileAccepted(ctx context.Context, s *config.Stores, h *health.Health, do func(context.Context) error) error {
	access := &mongox.Access{After: p.config.Process.FatalAfter, Service: "projector", Logger: p.logger}
	h.Ready("mongodb-access", access.Check)
	accepted, end := context.WithCancelCause(ctx)
	defer end(nil)
	var refused error
	stop := poll.Beside(accepted, func(ctx context.Context) {
		if refused = watchAccess(ctx, access, func(ctx context.Context) error { return readOwners(ctx, s) }); refused != nil {
			end(refused)
		}
	})
	err := do(accepted)
	stop()
	if refused == nil {
		return err
	}
	if err != nil {
		p.logger.Warn().Err(err).Msg("stopped with work unfinished")
	}
	return refused
}

// watchAccess checks the access until ctx ends, and then returns nil. It returns an error if
// refusals have lasted for too long. Call it after MongoDB has served the process.
func watchAccess(ctx context.Context, access *mongox.Access, check func(context.Context) error) error {
	access.Works()
	ticker := time.NewTicker(accessInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		switch err := check(ctx); {
		case err == nil:
			access.Works()
		case ctx.Err() == nil && mongox.AccessRefused(err) && access.Final(err):
			return fmt.Errorf("%w; %s, and the user's roles: readWrite on the databases of the read models and the state",
				access.Check(ctx), mongox.RemedyCredentials)
		}
	}
}

// readOwners reads from the databases of the read models and the state, to find out whether
// MongoDB accepts this process. A ping would need no right.
func readOwners(ctx context.Context, s *config.Stores) error {
	for what, db := range map[string]*mongo.Database{"read models": s.ReadModels, "state": s.State} {
		reading, cancel := mongox.Timeout(ctx, config.AttemptTimeout)
		err := mongox.Explain(reading, db.Collection(catalog.OwnersName).FindOne(reading, bson.D{{Key: "_id", Value: ""}}).Err())
		cancel()
		if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
			return fmt.Errorf("read from the database of the %s: %w", what, err)
		}
	}
	return nil
}
