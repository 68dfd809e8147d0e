package operate

import (
	"context"
	"fmt"
	"slices"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/pause"
	"github.com/penstock-cdc/penstock/projector/internal/config"
)

type pauseCommand struct{ pause.Request }

func (*pauseCommand) needs() config.Part { return config.PartMongoDB | config.PartServiceBus }

func (c *pauseCommand) runOn(ctx context.Context, e *Environment, s *stored) error {
	return c.Pause(ctx, e.pausable(s))
}

type resumeCommand struct{ cli.Change }

func (*resumeCommand) needs() config.Part { return config.PartMongoDB | config.PartServiceBus }

func (c *resumeCommand) runOn(ctx context.Context, e *Environment, s *stored) error {
	return e.pausable(s).Resume(ctx, c.Change)
}

// pausable is what the commands pause and resume: the draining of one subscription. Each
// registered projector reports when it has released its sessions.
func (e *Environment) pausable(s *stored) pause.Subject {
	bus, pipeline := e.Config.ServiceBus, e.Config.Pipeline().String()
	return pause.Subject{
		Name: "subscription " + bus.Topic + "/" + bus.Subscription, Effect: "release every session and receive nothing",
		Nobody: fmt.Sprintf("no projector is registered for this pipeline in database %s (PENSTOCK_STATE_DATABASE)", s.State.Name()),
		Store:  pause.NewStore(pause.In(s.State), "projector", pipeline), Out: e.stdout, Change: s.change,
		Working: func(ctx context.Context, stopped []string) ([]string, error) {
			alive, err := s.alive(ctx, pipeline)
			var working []string
			for _, pod := range alive {
				if !slices.Contains(stopped, pod.Pod) {
					working = append(working, pod.Pod)
				}
			}
			return working, err
		},
	}
}
