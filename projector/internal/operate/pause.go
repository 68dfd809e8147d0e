package operate

import (
	"context"
	"slices"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/pause"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/generation"
)

type pauseCommand struct{ pause.Request }

func (*pauseCommand) needs() config.Part { return config.PartMongoDB | config.PartServiceBus }

func (c *pauseCommand) run(ctx context.Context, e *Environment) error {
	return e.withPausable(ctx, func(s pause.Subject) error { return c.Pause(ctx, s) })
}

type resumeCommand struct{ cli.Change }

func (*resumeCommand) needs() config.Part { return config.PartMongoDB | config.PartServiceBus }

func (c *resumeCommand) run(ctx context.Context, e *Environment) error {
	return e.withPausable(ctx, func(s pause.Subject) error { return s.Resume(ctx, c.Change) })
}

// withPausable calls do with what the commands pause and resume: the draining of one
// subscription. Each registered projector reports when it has released its sessions.
func (e *Environment) withPausable(ctx context.Context, do func(pause.Subject) error) error {
	s, err := e.connect(ctx)
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	bus := e.Config.ServiceBus
	registry := generation.NewRegistry(generation.Open(s.State, generation.RegistryName), generation.Registration{Pipeline: e.Config.Pipeline().String()})
	return do(pause.Subject{
		Name: "subscription " + bus.Topic + "/" + bus.Subscription, Effect: "release every session and receive nothing",
		Store: pause.NewStore(pause.In(s.State), "projector", e.Config.Pipeline().String()), Out: e.stdout,
		Change: func(ctx context.Context, flags cli.Change, what string, change func(context.Context) (map[string]int64, error)) error {
			return e.change(ctx, s, flags, what, change)
		},
		Working: func(ctx context.Context, stopped []string) ([]string, error) {
			alive, err := registry.Alive(ctx)
			if err != nil {
				return nil, err
			}
			var working []string
			for _, pod := range alive {
				if !slices.Contains(stopped, pod.Pod) {
					working = append(working, pod.Pod)
				}
			}
			return working, nil
		},
	})
}
