package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
	"github.com/penstock-cdc/penstock/publisher/internal/term"
)

// republishCommand sends stored events again. The message ids stay the same, so a consumer
// recognises an event that it already has.
type republishCommand struct {
	cli.Change
	Aggregate string     `name:"aggregate" placeholder:"ID" help:"Send the events of this aggregate."`
	From      *time.Time `name:"from" placeholder:"TIME" help:"Send the events whose timestamp is at or after this, an RFC 3339 time. Reads the whole event store, twice."`
	To        *time.Time `name:"to" placeholder:"TIME" help:"Send the events whose timestamp is before this."`
	publishRate
}

// Validate checks the flags. kong calls it.
func (c *republishCommand) Validate() error {
	span := c.From != nil || c.To != nil
	switch {
	case c.Aggregate == "" && !span:
		return errors.New("neither --aggregate nor --from and --to are set: say which events to send")
	case c.Aggregate != "" && span:
		return errors.New("--aggregate and --from or --to are set: use one of the two")
	case span && (c.From == nil || c.To == nil || !c.From.Before(*c.To)):
		return errors.New("--from and --to are not a time span: set both, --from before --to")
	}
	return c.publishRate.Validate()
}

func (*republishCommand) validate(c *config.Config) error { return c.Check() }

func (c *republishCommand) runOn(ctx context.Context, e *environment, s *stores) error {
	history, err := eventstore.NewReader(s.events, e.options.Config.EventFields(), e.options.Logger)
	if err != nil {
		return err
	}
	var events int64
	broken, err := c.each(ctx, e, history, func(context.Context, event.Event) error {
		events++
		return nil
	})
	if err != nil {
		return err
	}
	if events == 0 {
		return fmt.Errorf("%s: no such event in the event store (%d that break the contract are left out)", c.chosen(), broken)
	}
	dropped := duplicates(ctx, e.options)
	what := fmt.Sprintf("send %s again%s (%s; %d that break the contract are left out)%s", cli.Count(events, "event"), c.duration(events), c.chosen(), broken, dropped)
	var sent int64
	err = e.change(ctx, s, c.Change, what, func(ctx context.Context) (map[string]int64, error) {
		sent, err = c.send(ctx, e, s, history)
		return map[string]int64{"sent": sent}, err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, "%d of %s sent again\n", sent, cli.Count(events, "event"))
	if dropped != "" {
		fmt.Fprintln(e.stderr, strings.TrimPrefix(dropped, "; "))
	}
	fmt.Fprintln(e.stderr, "read models ignore events that they have: to fold them again, use \"projector verify --repair\" or \"projector projections rebuild\"")
	if sent < events {
		return cli.ErrFindings
	}
	return nil
}

// chosen describes the chosen events.
func (c *republishCommand) chosen() string {
	if c.Aggregate != "" {
		return "aggregate " + c.Aggregate
	}
	return "from " + cli.Time(*c.From) + " to " + cli.Time(*c.To)
}

// send publishes the events in order, and prints the topic's refusals.
func (c *republishCommand) send(ctx context.Context, e *environment, s *stores, history *eventstore.Reader) (int64, error) {
	epoch, err := currentEpoch(ctx, e.options, s)
	if err != nil {
		return 0, err
	}
	if c.Aggregate == "" {
		// The events of a time span can be later ones of an aggregate whose earlier ones the
		// leader has still to publish.
		if err := awaitPublished(ctx, e.options.Config, s, history, publishedWithin); err != nil {
			return 0, err
		}
	}
	r, err := newRepublisher(ctx, e.options, epoch, c.publishRate, func(_ uint64, err error) {
		if err != nil {
			e.options.Logger.Warn().Err(err).Msg("topic refused an event")
		}
	})
	if err != nil {
		return 0, err
	}
	return r.run(ctx, e.options.Config.ServiceBus, func(ctx context.Context, submit func(context.Context, publish.Item) error) error {
		var ticket uint64
		_, err := c.each(ctx, e, history, func(ctx context.Context, ev event.Event) error {
			ticket++
			return submit(ctx, publish.Item{Event: ev, Ticket: ticket})
		})
		return err
	})
}

// publishedWithin is how long a command waits until the leader has published what is stored.
// An idle stream moves every 10 s at least.
const publishedWithin = 30 * time.Second

// awaitPublished waits until the leader has published everything that is stored now.
func awaitPublished(ctx context.Context, c config.Config, s *stores, history *eventstore.Reader, within time.Duration) error {
	asking, cancel := mongox.Timeout(ctx, attemptTimeout)
	defer cancel()
	now, err := history.OperationTime(asking)
	if err != nil {
		return mongox.Explain(asking, err)
	}
	for end := time.Now().Add(within); ; {
		read, err := readCheckpoint(ctx, s, c)
		switch {
		case err != nil:
			return err
		case read == nil:
			return fmt.Errorf("stream %s: %w, so later events of an aggregate could come before earlier ones: start the publisher first, correct PENSTOCK_STREAM, or use --aggregate, which begins with the first event", c.Stream.Name, errNoCheckpoint)
		}
		position := viewCheckpoint("", read)
		if !read.Position.Scan.Active() && position.At.Unix() > int64(now.T) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the publisher is behind (%s, published up to %s), so later events of an aggregate would come before earlier ones: repeat the command when \"publisher status\" shows that it has caught up, or use --aggregate, which begins with the first event",
				position.Position, cli.Time(position.At))
		}
		if err := poll.Wait(ctx, attemptPause/4); err != nil {
			return err
		}
	}
}

// each calls do with every chosen event, in the order of its aggregate, and counts the
// events that break the contract.
func (c *republishCommand) each(ctx context.Context, e *environment, history *eventstore.Reader, do func(context.Context, event.Event) error) (broken int64, err error) {
	var from, until eventstore.Position
	if c.Aggregate != "" {
		known, err := history.Known(ctx, []string{c.Aggregate})
		id, ok := known[c.Aggregate]
		if err != nil || !ok {
			return 0, err
		}
		from, until = eventstore.Before(id), eventstore.After(id)
	}
	return c.eachIn(ctx, e.options, history, from, until, do)
}

// eachIn is each for one range. It reads events in the same way as the publisher, so their
// messages are the same again. If MongoDB ends the cursor, in a failover or because a low
// rate left it idle for 10 minutes, the scanner continues where it stopped.
func (c *republishCommand) eachIn(ctx context.Context, o Options, history term.Source, from, until eventstore.Position, do func(context.Context, event.Event) error) (broken int64, err error) {
	reader, err := publishersReader(ctx, history, o.Config.EventFields())
	if err != nil {
		return 0, err
	}
	var last event.Event
	err = term.NewScanner(history, term.ScanOptions{Logger: o.Logger}).Run(ctx, from, until, bson.Timestamp{}, func(ctx context.Context, documents []bson.Raw) error {
		for _, document := range documents {
			ev, err := reader.Read(document)
			if err != nil {
				broken++
				continue
			}
			// A scan that continues repeats the event at which it stopped.
			if ev.AggregateID == last.AggregateID && ev.EventID == last.EventID {
				continue
			}
			last = ev
			if c.Aggregate == "" && (ev.Timestamp.Before(*c.From) || !ev.Timestamp.Before(*c.To)) {
				continue
			}
			if err := do(ctx, ev); err != nil {
				return err
			}
		}
		return nil
	})
	return broken, err
}

// publishersReader returns a reader that reads events as the publisher does: with ids of the type
// that the event store has.
func publishersReader(ctx context.Context, history term.Source, fields event.Fields) (*event.Reader, error) {
	reader, err := event.NewReader(fields)
	if err != nil {
		return nil, err
	}
	kind, err := history.LearnIDs(ctx)
	reader.Only(kind)
	return reader, err
}

// duplicates describes what the topic's duplicate detection does with events that are sent
// again. Without the right to read the topic's properties, the answer is conditional.
func duplicates(ctx context.Context, o Options) string {
	ctx, cancel := context.WithTimeout(ctx, propertiesTimeout)
	defer cancel()
	namespace, err := sbus.Open(o.Config.ServiceBus)
	var topic admin.TopicProperties
	if err == nil {
		topic, err = namespace.Topic(ctx, o.Config.ServiceBus.Topic)
	}
	window := sbus.Value(topic.DuplicateDetectionHistoryTimeWindow)
	switch {
	case err != nil:
		return "; if the topic detects duplicates, it drops the events that it received within its window"
	case !sbus.Value(topic.RequiresDuplicateDetection) || window == "":
		return ""
	}
	return "; the topic detects duplicates and drops the events that it received within " + window
}
