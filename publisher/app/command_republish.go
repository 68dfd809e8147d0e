package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
	"github.com/penstock-cdc/penstock/publisher/internal/quarantine"
	"github.com/penstock-cdc/penstock/publisher/internal/term"
)

// republishCommand sends stored events again. The message ids stay the same, so a consumer
// recognises an event that it already has.
type republishCommand struct {
	cli.Change
	cli.Output
	Quarantine bool       `name:"quarantine" help:"Send the events of the quarantine that have been corrected in the event store, and remove their records. Correct an event in place: keep its _id. --reason, --aggregate, --document, --older-than and --limit choose among them."`
	From       *time.Time `name:"from" placeholder:"TIME" help:"Send the events whose timestamp is at or after this, an RFC 3339 time. Reads the whole event store, twice."`
	To         *time.Time `name:"to" placeholder:"TIME" help:"Send the events whose timestamp is before this."`
	quarantineFilter
	publishRate
}

// Validate checks the flags. kong calls it.
func (c *republishCommand) Validate() error {
	span := c.From != nil || c.To != nil
	switch {
	case !c.Quarantine && c.Aggregate == "" && !span:
		return errors.New("none of --quarantine, --aggregate, and --from and --to are set: say which events to send")
	case (c.Quarantine || c.Aggregate != "") && span:
		return errors.New("--from or --to is set with --quarantine or --aggregate: use one of them")
	case span && (c.From == nil || c.To == nil || !c.From.Before(*c.To)):
		return errors.New("--from and --to are not a time span: set both, --from before --to")
	case !c.Quarantine && (c.Reason != "" || c.Document != "" || c.OlderThan != 0 || c.Limit != defaultLimit):
		return errors.New("--reason, --document, --older-than or --limit is set without --quarantine: they choose among its events")
	}
	return errors.Join(c.quarantineFilter.Validate(), c.publishRate.Validate())
}

func (*republishCommand) validate(c *config.Config) error { return c.Check() }

// selection is the events that the command sends.
type selection struct {
	// what describes the events for the confirmation, and events is their number.
	what   string
	events int64
	// each calls do with every event, in the order of its aggregate, and with its record if it
	// is in the quarantine. An event that has changed since it was selected can be left out.
	each func(ctx context.Context, do func(context.Context, event.Event, *quarantine.Record) error) error
	// unsent are the events of the quarantine that cannot be sent.
	unsent []unsent
}

// unsent is an event that the command has not sent.
type unsent struct {
	Document    string `json:"document"`
	AggregateID string `json:"aggregateId,omitempty"`
	Why         string `json:"why"`
}

// sending is the result of the command.
type sending struct {
	Sent   int64    `json:"sent"`
	Unsent []unsent `json:"unsent"`
}

func (c *republishCommand) runOn(ctx context.Context, e *environment, s *stores) error {
	history := eventstore.NewReader(s.events, e.options.Config.EventFields(), e.options.Logger)
	reader, err := publishersReader(ctx, history, e.options.Config.EventFields())
	if err != nil {
		return err
	}
	chosen, err := c.choose(ctx, e, s, history, reader)
	if err != nil {
		return err
	}
	result, dropped := sending{Unsent: append([]unsent{}, chosen.unsent...)}, ""
	if chosen.events > 0 {
		if !c.Quarantine {
			dropped = "; if the topic detects duplicates, it drops the events that it received within its window"
		}
		what := fmt.Sprintf("send %s%s (%s)%s", cli.Count(chosen.events, "event"), c.duration(chosen.events), chosen.what, dropped)
		err = e.change(ctx, s, c.Change, what, func(ctx context.Context) (map[string]int64, error) {
			err := c.send(ctx, e, s, history, chosen, &result)
			return map[string]int64{"sent": result.Sent, "unsent": int64(len(result.Unsent))}, err
		})
		if err != nil {
			return err
		}
	}
	return c.report(e, chosen.events+int64(len(chosen.unsent)), result, dropped)
}

func (c *republishCommand) choose(ctx context.Context, e *environment, s *stores, history *eventstore.Reader, reader *event.Reader) (selection, error) {
	if !c.Quarantine {
		return c.chooseStored(ctx, e, history, reader)
	}
	found, err := c.quarantineFilter.choose(ctx, e, e.quarantine(s))
	if err != nil {
		return selection{}, err
	}
	return chooseRecords(ctx, s.events, reader, found)
}

func (c *republishCommand) report(e *environment, events int64, r sending, dropped string) error {
	if c.JSON() {
		if err := cli.PrintJSON(e.stdout, r); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(e.stdout, "%d of %s sent\n", r.Sent, cli.Count(events, "event"))
		err := cli.List(e.stdout, c.Output, r.Unsent, func(u unsent) []cli.Field {
			return []cli.Field{
				{Name: "document", Text: u.Document},
				{Name: "aggregate", Text: u.AggregateID},
				{Name: "why not", Text: u.Why},
			}
		})
		if err != nil {
			return err
		}
	}
	switch {
	case r.Sent == 0:
	case c.Quarantine:
		fmt.Fprintln(e.stderr, "later events of these aggregates may be on the topic already; the projector restores their order")
	default:
		fmt.Fprintln(e.stderr, "read models ignore events that they have: to fold them again, use \"projector verify --repair\" or \"projector projections rebuild\""+dropped)
	}
	if r.Sent < events {
		return cli.ErrFindings
	}
	return nil
}

// send publishes the events in order, and removes the records of those that the topic has
// taken from the quarantine.
func (c *republishCommand) send(ctx context.Context, e *environment, s *stores, history *eventstore.Reader, chosen selection, result *sending) error {
	epoch, err := currentEpoch(ctx, e.options, s)
	if err != nil {
		return err
	}
	if c.From != nil {
		// The events of a time span can be later ones of an aggregate whose earlier ones the
		// leader has still to publish.
		if err := awaitPublished(ctx, e.options.Config, s, history, publishedWithin); err != nil {
			return err
		}
	}
	bus := e.options.Config.ServiceBus
	namespace, err := sbus.Open(bus)
	if err != nil {
		return err
	}
	r := newRepublisher(publish.ServiceBus(namespace, bus.Topic), e.options, epoch, c.publishRate)
	err = r.run(ctx, bus, chosen.each)
	result.Sent, result.Unsent = r.sent, append(result.Unsent, r.unsent...)
	if len(r.healed) > 0 {
		// Remove the records of all events that were sent, also after an error or a signal.
		_, failure := e.quarantine(s).Remove(context.WithoutCancel(ctx), r.healed...)
		err = errors.Join(err, failure)
	}
	return err
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
		if position.At.Unix() > int64(now.T) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("the publisher is behind (%s), so later events of an aggregate would come before earlier ones: repeat the command when \"publisher status\" shows that it has caught up, or use --aggregate, which begins with the first event",
				position.place())
		}
		if err := poll.Wait(ctx, attemptPause/4); err != nil {
			return err
		}
	}
}

// currentEpoch returns the epoch of the last term. Messages carry it. It fails if that term was
// one of another pipeline.
func currentEpoch(ctx context.Context, o Options, s *stores) (int64, error) {
	read, err := readCheckpoint(ctx, s, o.Config)
	if read == nil || err != nil {
		return 0, err
	}
	return read.Epoch, refuseOther(ctx, o.Config, s, read)
}

// refuseOther fails if the checkpoint records another event store than the configuration, or
// another distribution over sessions. A command may have another topic.
func refuseOther(ctx context.Context, c config.Config, s *stores, read *checkpoint.State) error {
	if read.Identity == nil {
		return nil
	}
	here, _, err := term.Identify(ctx, c, s.events.Database().Client())
	if err != nil {
		return err
	}
	here.CollectionUUID, here.Namespace, here.Topic = read.Identity.CollectionUUID, read.Identity.Namespace, read.Identity.Topic
	if differences := read.Identity.Differences(here); len(differences) > 0 {
		return fmt.Errorf("%w: nothing is done; give the command the configuration of the publisher", &checkpoint.OtherPipelineError{Stream: c.Stream.Name, Differences: differences})
	}
	return nil
}
