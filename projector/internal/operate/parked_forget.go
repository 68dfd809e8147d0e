package operate

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/park"
)

type parkedForgetCommand struct {
	parkedFilter
	cli.Change `set:"why=required"`
}

// Validate checks the flags. kong calls it.
func (c *parkedForgetCommand) Validate() error {
	return errors.Join(c.parkedFilter.Validate(), c.RequireWhy("say why the event store will not have the events"))
}

func (*parkedForgetCommand) needs() config.Part { return config.PartMongoDB | config.PartFields }

func (c *parkedForgetCommand) runOn(ctx context.Context, e *Environment, s *stored) error {
	all, err := c.choose(ctx, e, s)
	if err != nil {
		return err
	}
	events, err := s.events(ctx)
	if err != nil {
		return err
	}
	beyond, err := beyondEnd(ctx, events, all.found)
	if err != nil {
		return err
	}
	if len(beyond) == 0 {
		return errNothingBeyond
	}
	var forgotten int64
	err = s.change(ctx, c.Change, "forget "+amount(beyond, int64(len(beyond)))+" that waits for events beyond the end of the event store", func(ctx context.Context) (map[string]int64, error) {
		var err error
		forgotten, err = s.parked.Remove(ctx, beyond)
		return map[string]int64{"forgotten": forgotten}, err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, "forgot the markers of %s; later events are applied\n", cli.Count(forgotten, "aggregate"))
	if left := int64(len(beyond)) - forgotten; left > 0 {
		return fmt.Errorf("forget markers: %s changed meanwhile, or a pod applies its events: run the command again", cli.Count(left, "aggregate"))
	}
	return nil
}

// errNothingBeyond is returned if no chosen aggregate can be forgotten.
var errNothingBeyond = errors.New("no parked aggregate that matches waits for an event beyond the end of the event store: \"projector parked retry\" applies events that the event store has")

// beyondEnd returns the markers whose last acknowledged event is beyond the last one that the
// event store has of the aggregate.
func beyondEnd(ctx context.Context, events *eventstore.Reader, found []park.Listed) ([]park.Listed, error) {
	var beyond []park.Listed
	for _, m := range found {
		newest, err := events.Newest(ctx, m.AggregateID)
		if err != nil {
			return nil, err
		}
		if m.Head > newest {
			beyond = append(beyond, m)
		}
	}
	return beyond, nil
}
