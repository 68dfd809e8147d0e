package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
	"github.com/penstock-cdc/penstock/publisher/internal/term"
)

const (
	// attemptTimeout bounds one attempt to reach MongoDB at the start.
	attemptTimeout = 10 * time.Second
	// attemptPause is the pause between two attempts.
	attemptPause = 2 * time.Second
	// topicTimeout bounds the check of the topic at the start. If the broker cannot be
	// reached, the dispatcher retries later.
	topicTimeout = 10 * time.Second
)

// awaitMongoDB waits until it reaches a store. It fails if the store is no replica set or
// refuses the credentials.
func awaitMongoDB(ctx context.Context, client mongox.Client, logger zerolog.Logger) error {
	for {
		err := mongox.Reach(ctx, client.Client)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case mongox.Unusable(err):
			return fmt.Errorf("MongoDB at %s (%s): %w: %w", client.Store, client.What, term.ErrSetup, err)
		case mongox.HasCode(err, mongox.CodeUnauthorized, mongox.CodeAuthenticationFailed, mongox.CodeAtlasError) && !mongox.Transient(err):
			return fmt.Errorf("MongoDB at %s (%s) refuses the credentials: %w; %s", client.Store, client.What, err, mongox.RemedyCredentials)
		}
		logger.Warn().Err(err).Stringer("store", client.Store).Msg("MongoDB cannot be reached; retrying")
		if err := poll.Wait(ctx, attemptPause); err != nil {
			return err
		}
	}
}

// checkEvents checks the event store. The index must exist before a scan needs it: when
// that happens, the oplog has lost the changes already.
func checkEvents(ctx context.Context, history *eventstore.Reader, store mongox.Store, logger zerolog.Logger) error {
	ctx, cancel := mongox.Timeout(ctx, attemptTimeout)
	defer cancel()
	found, err := history.CheckIndex(ctx)
	if err == nil && found.Exists {
		err = history.CheckFirstID(ctx)
	}
	err = mongox.Explain(ctx, err)
	switch {
	case errors.Is(err, eventstore.ErrIndex), errors.Is(err, eventstore.ErrFirstID):
		return fmt.Errorf("event store %s: %w", store, err)
	case mongox.HasCode(err, mongox.CodeUnauthorized):
		return fmt.Errorf("event store %s: %w; grant the user listIndexes, find and changeStream on it (the role read on its database)", store, err)
	case err != nil:
		logger.Warn().Err(err).Stringer("store", store).Msg("index and first ids of the event store not checked")
	case !found.Exists:
		logger.Warn().Stringer("store", store).Msg("the events collection does not exist yet: create it with its index before the first event")
	}
	return nil
}

// noPayload says that the readable events of a sample have no payload. Events need none, so
// nothing else shows a wrong name of its field.
func noPayload(counts term.Counts, fields event.Fields) (problem, remedy string, found bool) {
	return fmt.Sprintf("no event of a sample of %d has a payload in the field %q", counts.Readable, fields.Payload),
		"set PENSTOCK_FIELD_PAYLOAD to the field that has it, unless the events have none",
		counts.Readable > 0 && counts.Payloads == 0
}

// checkReadable reads a sample of the event store with the configured field names. If
// the sample cannot be read, the publisher starts anyway.
func checkReadable(ctx context.Context, sample term.Sample, logger zerolog.Logger) error {
	ctx, cancel := mongox.Timeout(ctx, attemptTimeout)
	defer cancel()
	counts, err := sample.Read(ctx)
	err = mongox.Explain(ctx, err)
	if problem, remedy, found := noPayload(counts, sample.Fields); err == nil && found {
		logger.Warn().Str("remedy", remedy).Msg(problem)
	}
	if err == nil || errors.Is(err, term.ErrUnreadable) {
		return err
	}
	logger.Warn().Err(err).Msg("sample of the event store not read; field names not checked")
	return nil
}

// checkTopic tries to connect to the topic. So a wrong name or missing rights show at the
// start and on every process, not only on the leader. It reports whether it reached the
// topic. If the broker cannot be reached, the publisher starts anyway.
func checkTopic(ctx context.Context, try func(context.Context) error, config sbus.Config, logger zerolog.Logger) (reached bool, err error) {
	checking, cancel := context.WithTimeout(ctx, topicTimeout)
	defer cancel()
	err = try(checking)
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case term.Fatal(err):
		return false, publish.Explain(err, config)
	}
	logger.Warn().Err(err).Str("namespace", config.Host()).Str("topic", config.Topic).Msg("topic not reached yet; retrying. Check the namespace's name, and that the network allows AMQP (port 5671)")
	return false, nil
}

// tryTopic opens a link to the topic, which needs the right to send.
func (p *Publisher) tryTopic(ctx context.Context, namespace *sbus.Namespace) error {
	sender, err := publish.ServiceBus(namespace, p.config.ServiceBus.Topic)(ctx)
	if err != nil {
		return err
	}
	if err := sender.Close(ctx); err != nil {
		p.logger.Debug().Err(err).Msg("close the connection that checked the topic")
	}
	return nil
}
