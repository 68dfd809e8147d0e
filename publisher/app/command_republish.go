package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

// republishCommand sends stored events again. The message ids stay the same, so a consumer
// recognises an event that it already has.
type republishCommand struct {
	cli.Change
	Aggregate string    `name:"aggregate" placeholder:"ID" help:"Send the events of this aggregate."`
	From      time.Time `name:"from" placeholder:"TIME" help:"Send the events whose timestamp is at or after this, an RFC 3339 time. Reads the whole event store, twice."`
	To        time.Time `name:"to" placeholder:"TIME" help:"Send the events whose timestamp is before this."`

	fields event.Fields
}

// Validate implements [cli.Validator].
func (c *republishCommand) Validate() error {
	span := !c.From.IsZero() || !c.To.IsZero()
	switch {
	case c.Aggregate == "" && !span:
		return errors.New("neither --aggregate nor --from and --to are set: say which events to send")
	case c.Aggregate != "" && span:
		return errors.New("--aggregate and --from or --to are set: use one of the two")
	case span && (c.From.IsZero() || c.To.IsZero() || !c.From.Before(c.To)):
		return errors.New("--from and --to are not a time span: set both, --from before --to")
	}
	return nil
}

func (*republishCommand) validate(c *config.Config) error { return c.Validate() }

func (c *republishCommand) run(ctx context.Context, e *environment) error {
	c.fields = e.options.Config.Fields
	return e.withStores(ctx, func(s *stores) error {
		history, err := eventstore.NewReader(s.events, e.options.Config.Fields, e.options.Logger)
		if err != nil {
			return err
		}
		var events, broken int64
		err = c.each(ctx, history, func(event.Event) error {
			events++
			return nil
		}, &broken)
		if err != nil {
			return err
		}
		if events == 0 {
			return fmt.Errorf("%s: no such event in the event store (%d that break the contract are left out)", c.chosen(), broken)
		}
		what := fmt.Sprintf("send %d events again (%s; %d that break the contract are left out)%s", events, c.chosen(), broken, duplicates(ctx, e.options))
		var sent int64
		err = e.change(ctx, s, c.Change, what, func(ctx context.Context) (map[string]int64, error) {
			sent, err = c.send(ctx, e, s, history)
			return map[string]int64{"sent": sent}, err
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(e.stdout, "%d of %d events sent again\n", sent, events)
		fmt.Fprintln(e.stderr, "read models ignore events that they have: to fold them again, use \"projector verify --repair\" or \"projector projections rebuild\"")
		if sent < events {
			return cli.ErrFindings
		}
		return nil
	})
}

// chosen describes the chosen events.
func (c *republishCommand) chosen() string {
	if c.Aggregate != "" {
		return "aggregate " + c.Aggregate
	}
	return "from " + cli.Time(c.From) + " to " + cli.Time(c.To)
}

// send publishes the events in order, and prints the topic's refusals.
func (c *republishCommand) send(ctx context.Context, e *environment, s *stores, history *eventstore.Reader) (int64, error) {
	epoch, err := currentEpoch(ctx, e.options, s)
	if err != nil {
		return 0, err
	}
	r, err := newRepublisher(ctx, e.options, epoch, func(_ uint64, err error) {
		if err != nil {
			e.options.Logger.Warn().Err(err).Msg("topic refused an event")
		}
	})
	if err != nil {
		return 0, err
	}
	var broken int64
	return r.run(ctx, e.options.Config.ServiceBus, func(ctx context.Context, submit func(publish.Item) error) error {
		var ticket uint64
		return c.each(ctx, history, func(ev event.Event) error {
			ticket++
			return submit(publish.Item{Event: ev, Ticket: ticket})
		}, &broken)
	})
}

// each calls do with every chosen event, in the order of its aggregate, and counts the
// events that break the contract.
func (c *republishCommand) each(ctx context.Context, history *eventstore.Reader, do func(event.Event) error, broken *int64) error {
	reader, err := event.NewReader(c.fields)
	if err != nil {
		return err
	}
	ranges := [][2]eventstore.Position{{}}
	if c.Aggregate != "" {
		known, err := history.Known(ctx, []string{c.Aggregate})
		if err != nil {
			return err
		}
		ranges = nil
		for _, id := range known[c.Aggregate] {
			ranges = append(ranges, [2]eventstore.Position{eventstore.Before(id), eventstore.After(id)})
		}
	}
	for _, r := range ranges {
		if err := c.eachIn(ctx, history, reader, r[0], r[1], do, broken); err != nil {
			return err
		}
	}
	return nil
}

// eachIn is each for one range. It reads events in the same way as the publisher, so their
// messages are the same again.
func (c *republishCommand) eachIn(ctx context.Context, history *eventstore.Reader, reader *event.Reader, from, until eventstore.Position, do func(event.Event) error, broken *int64) error {
	cursor, err := history.Open(ctx, from, until, bson.Timestamp{})
	if cursor == nil || err != nil {
		return err
	}
	defer func() { _ = mongox.CloseCursor(ctx, cursor) }()
	for {
		page, err := nextPage(ctx, cursor)
		if errors.Is(err, eventstore.ErrEnd) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, document := range page {
			ev, err := reader.Read(document)
			if err != nil {
				*broken++
				continue
			}
			if c.Aggregate == "" && (ev.Timestamp.Before(c.From) || !ev.Timestamp.Before(c.To)) {
				continue
			}
			if err := do(ev); err != nil {
				return err
			}
		}
	}
}

// nextPage reads a page, with a time limit.
func nextPage(ctx context.Context, cursor eventstore.Cursor) ([]bson.Raw, error) {
	ctx, cancel := mongox.Timeout(ctx, time.Minute)
	defer cancel()
	page, err := cursor.Next(ctx)
	return page, mongox.Explain(ctx, err)
}

// duplicates describes what the topic's duplicate detection does with events that are sent
// again. Without the right to read the topic's properties, the answer is conditional.
func duplicates(ctx context.Context, o Options) string {
	ctx, cancel := context.WithTimeout(ctx, propertiesTimeout)
	defer cancel()
	window, err := duplicateWindow(ctx, o.Config.ServiceBus)
	switch {
	case err != nil:
		return "; if the topic detects duplicates, it drops the events that it received within its window"
	case window == "":
		return ""
	}
	return "; the topic detects duplicates and drops the events that it received within " + window
}
