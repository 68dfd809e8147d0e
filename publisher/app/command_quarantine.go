package app

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/publisher/internal/quarantine"
)

// quarantineCommands are the commands about events in the quarantine.
type quarantineCommands struct {
	List    quarantineListCommand    `cmd:"" help:"List the events that could not be published, the oldest first."`
	Show    quarantineShowCommand    `cmd:"" help:"Show everything about one event in the quarantine, with its document."`
	Discard quarantineDiscardCommand `cmd:"" help:"Remove records of the quarantine: accept that their events are not published. The event store stays as it is, and a scan of it quarantines the events again."`
}

// quarantineFilter are the flags that choose records.
type quarantineFilter struct {
	Reason    string        `name:"reason" placeholder:"REASON" help:"Only events with this reason, such as missing_event_type or refused."`
	Aggregate string        `name:"aggregate" placeholder:"ID" help:"Only events of this aggregate."`
	Document  string        `name:"document" placeholder:"ID" help:"Only the event whose _id in the event store is this, as the list shows it."`
	OlderThan time.Duration `name:"older-than" help:"Only events that have been in the quarantine for longer than this."`
	Limit     int           `name:"limit" default:"1000" help:"Largest number of events, 1 to 10000."`
}

// defaultLimit is the default of --limit.
const defaultLimit = 1000

// Validate checks the flags for the commands that embed them. kong calls it.
func (f quarantineFilter) Validate() error {
	return cli.Choice[event.Reason]{
		Limit: f.Limit, Max: quarantine.MaxRecords, OlderThan: f.OlderThan, Reason: event.Reason(f.Reason), Reasons: quarantine.Reasons(),
	}.Validate()
}

// list returns the records that the flags choose. It leaves out records that cannot be read,
// which the log names.
func (f quarantineFilter) list(ctx context.Context, e *environment, records *quarantine.Records) ([]quarantine.Record, error) {
	filter := quarantine.Filter{Reason: event.Reason(f.Reason), AggregateID: f.Aggregate, Document: f.Document}
	if f.OlderThan > 0 {
		filter.Before = time.Now().Add(-f.OlderThan)
	}
	found, err := records.List(ctx, filter, f.Limit)
	return found, new(mongox.Omissions).Report(err, e.options.Logger)
}

// choose is list for a command that changes the records. It fails if there are none.
func (f quarantineFilter) choose(ctx context.Context, e *environment, records *quarantine.Records) ([]quarantine.Record, error) {
	found, err := f.list(ctx, e, records)
	if err == nil && len(found) == 0 {
		err = errors.New("no event in the quarantine matches: see \"publisher quarantine list\"")
	}
	return found, err
}

// quarantine returns the records of the configured stream.
func (e *environment) quarantine(s *stores) *quarantine.Records {
	return quarantine.NewRecords(s.state, e.options.Config.Stream.Name)
}

type quarantineListCommand struct {
	quarantineFilter
	cli.Output
}

func (c *quarantineListCommand) runOn(ctx context.Context, e *environment, s *stores) error {
	records := e.quarantine(s)
	found, err := c.list(ctx, e, records)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		fmt.Fprintln(e.stderr, "no events in the quarantine")
	}
	now := time.Now()
	return cli.List(e.stdout, c.Output, found, func(r quarantine.Record) []cli.Field {
		return []cli.Field{
			{Name: "document", Text: r.Document},
			{Name: "aggregate", Text: r.AggregateID},
			{Name: "event", Text: eventText(r)},
			{Name: "reason", Text: string(r.Reason)},
			{Name: "field", Text: r.Field},
			{Name: "age", Text: cli.Age(now, r.FirstSeen)},
			{Name: "detail", Text: r.Detail},
		}
	})
}

func eventText(r quarantine.Record) string {
	if r.EventID == nil {
		return ""
	}
	return strconv.FormatInt(*r.EventID, 10)
}

type quarantineShowCommand struct {
	cli.Output
	Document string `arg:"" help:"The _id of the event in the event store, as the list shows it."`
}

func (c *quarantineShowCommand) runOn(ctx context.Context, e *environment, s *stores) error {
	records := e.quarantine(s)
	found, err := records.List(ctx, quarantine.Filter{Document: c.Document}, 1)
	if err := new(mongox.Omissions).Report(err, e.options.Logger); err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("event %q is not in the quarantine: see \"publisher quarantine list\"", c.Document)
	}
	r := found[0]
	if err := records.ReadEvent(ctx, &r); err != nil {
		return err
	}
	return cli.Show(e.stdout, c.Output, r, []cli.Field{
		{Name: "document", Text: r.Document},
		{Name: "aggregate", Text: r.AggregateID},
		{Name: "event id", Text: eventText(r)},
		{Name: "reason", Text: string(r.Reason)},
		{Name: "field", Text: r.Field},
		{Name: "detail", Text: r.Detail},
		{Name: "first seen", Text: cli.Time(r.FirstSeen)},
		{Name: "last seen", Text: cli.Time(r.LastSeen)},
		{Name: "read", Text: strconv.FormatInt(r.Seen, 10) + " times"},
		{Name: "event", Text: r.Event},
	})
}

type quarantineDiscardCommand struct {
	quarantineFilter
	cli.Change `set:"why=required"`
}

// Validate checks the flags. kong calls it.
func (c *quarantineDiscardCommand) Validate() error {
	return errors.Join(c.quarantineFilter.Validate(), c.RequireWhy("give the reason, because metrics and alerts no longer count discarded events"))
}

func (c *quarantineDiscardCommand) runOn(ctx context.Context, e *environment, s *stores) error {
	records := e.quarantine(s)
	found, err := c.choose(ctx, e, records)
	if err != nil {
		return err
	}
	var removed int64
	err = e.change(ctx, s, c.Change, fmt.Sprintf("discard %s of the quarantine (%s)", cli.Count(int64(len(found)), "event"), examples(found)), func(ctx context.Context) (map[string]int64, error) {
		removed, err = records.Remove(ctx, found...)
		return map[string]int64{"discarded": removed}, err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, "%d discarded\n", removed)
	return nil
}

// examples describes the first records.
func examples(records []quarantine.Record) string {
	const limit = 3
	var parts []string
	for i, r := range records {
		if i == limit {
			parts = append(parts, "…")
			break
		}
		parts = append(parts, fmt.Sprintf("%s, %s", r.Document, r.Reason))
	}
	return strings.Join(parts, "; ")
}
