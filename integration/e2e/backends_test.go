package e2e_test

import (
	"context"
	"testing"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/harness/containers"
	"github.com/penstock-cdc/penstock/integration/verify"
)

// backend is what a scenario needs from every backend: the servers, and the visible state
// of the topic.
type backend interface {
	harness.Backend
	// Published counts the messages that the topic accepted as new.
	Published() (int, error)
	// Accepted are the messages that the topic accepted, in its order.
	Accepted() ([]verify.Accepted, error)
	// Backlog counts the messages of the projectors' subscription.
	Backlog() (harness.Backlog, error)
}

// openBackends makes the suite open backends of a kind, one for each scenario.
func openBackends(ctx context.Context, kind harness.Kind, getenv func(string) string) error {
	switch kind {
	case harness.KindContainers:
		started, err := containers.Start(ctx, getenv)
		if err != nil {
			return err
		}
		suite.open = func(ctx context.Context, o harness.TopicOptions, _ int) (backend, error) { return started.Open(ctx, o) }
		suite.close, suite.alone = started.Close, started.Scenarios() == 1
	case harness.KindExternal:
		options, err := harness.LoadExternal(getenv)
		if err != nil {
			return err
		}
		connected, err := harness.ConnectExternal(ctx, options)
		if err != nil {
			return err
		}
		suite.open = func(ctx context.Context, o harness.TopicOptions, _ int) (backend, error) {
			return connected.Open(ctx, o)
		}
		// A namespace with a bound has only enough connections for one scenario.
		suite.close, suite.alone = connected.Close, connected.MaxConnections() > 0
	default:
		suite.open = func(_ context.Context, o harness.TopicOptions, events int) (backend, error) {
			return harness.StartEmbedded(embeddedOptions(o, events))
		}
		suite.close = func() error { return nil }
	}
	return nil
}

func embeddedOptions(o harness.TopicOptions, events int) harness.EmbeddedOptions {
	return harness.EmbeddedOptions{
		TopicOptions: o,
		// Twice the events, so that the record also holds a second publication of all of
		// them.
		Record: 2*events + 10_000,
	}
}

// open opens the backend of a scenario.
func open(t *testing.T, o harness.TopicOptions, events int) (backend, error) {
	t.Helper()
	if isVirtual(t) {
		return openVirtual(embeddedOptions(o, events))
	}
	return suite.open(t.Context(), o, events)
}
