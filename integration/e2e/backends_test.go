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

// backends opens a backend for each scenario.
type backends interface {
	// Open opens a backend for a pipeline of that many events.
	Open(ctx context.Context, o harness.TopicOptions, events int) (backend, error)
	// Scenarios is how many scenarios can run at the same time; 0 means any number.
	Scenarios() int
	Close() error
}

func openBackends(ctx context.Context, kind harness.Kind, getenv func(string) string) (backends, error) {
	switch kind {
	case harness.KindContainers:
		started, err := containers.Start(ctx, getenv)
		if err != nil {
			return nil, err
		}
		return containerBackends{started}, nil
	case harness.KindExternal:
		options, err := harness.LoadExternal(getenv)
		if err != nil {
			return nil, err
		}
		connected, err := harness.ConnectExternal(ctx, options)
		if err != nil {
			return nil, err
		}
		return sharedBackends{connected}, nil
	default:
		return embeddedBackends{}, nil
	}
}

// embeddedBackends starts stand-ins for every scenario.
type embeddedBackends struct{}

func (embeddedBackends) Open(_ context.Context, o harness.TopicOptions, events int) (backend, error) {
	return harness.StartEmbedded(embeddedOptions(o, events))
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
	return suite.backends.Open(t.Context(), o, events)
}

func (embeddedBackends) Scenarios() int { return 0 }

func (embeddedBackends) Close() error { return nil }

// sharedBackends opens backends on the same servers for all scenarios.
type sharedBackends struct{ *harness.External }

func (b sharedBackends) Open(ctx context.Context, o harness.TopicOptions, _ int) (backend, error) {
	return b.External.Open(ctx, o)
}

// Scenarios returns 1 if the namespace has only enough connections for one scenario.
func (b sharedBackends) Scenarios() int { return min(b.MaxConnections(), 1) }

// containerBackends opens backends in containers.
type containerBackends struct{ *containers.Containers }

func (b containerBackends) Open(ctx context.Context, o harness.TopicOptions, _ int) (backend, error) {
	return b.Containers.Open(ctx, o)
}
