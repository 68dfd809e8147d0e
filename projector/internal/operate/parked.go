package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/park"
)

// maxParked bounds the parked aggregates that one command lists or changes.
const maxParked = 10_000

// parkedCommands are the commands about parked aggregates.
type parkedCommands struct {
	List    parkedListCommand    `cmd:"" help:"List parked aggregates, the oldest first."`
	Show    parkedShowCommand    `cmd:"" help:"Show everything about one parked aggregate."`
	Retry   parkedRetryCommand   `cmd:"" help:"Apply the events of parked aggregates again, from the event store and under the present definition. It does not wait for a next event. If an event fails again, its aggregate is parked again."`
	Discard parkedDiscardCommand `cmd:"" help:"Accept that aggregates stay parked. Their read models stay as they are, their later events wait in the event store, and they are neither listed nor counted as parked any more. A retry resumes them."`
}

// parkedFilter are the flags that choose parked aggregates.
type parkedFilter struct {
	Projection string        `name:"projection" placeholder:"NAME" help:"Only aggregates that are parked in this projection."`
	Reason     string        `name:"reason" placeholder:"REASON" help:"Only aggregates that are parked for this reason, such as expression, rejected or missing."`
	Aggregate  string        `name:"aggregate" placeholder:"ID" help:"Only this aggregate."`
	OlderThan  time.Duration `name:"older-than" help:"Only aggregates that have been parked for longer than this."`
	Discarded  bool          `name:"discarded" help:"Only aggregates that are discarded; otherwise only the others."`
	Limit      int           `name:"limit" default:"1000" help:"Largest number of aggregates, 1 to 10000."`
}

// Validate checks the flags for the commands that embed them. kong calls it.
func (f parkedFilter) Validate() error {
	return cli.Choice[string]{Limit: f.Limit, Max: maxParked, OlderThan: f.OlderThan, Reason: f.Reason, Reasons: Reasons()}.Validate()
}

// filter returns the filter of the flags. except are projections that a command leaves alone,
// such as those of other event stores.
func (f parkedFilter) filter(now time.Time, except []string) park.Filter {
	chosen := park.Filter{Projection: f.Projection, Reason: f.Reason, AggregateID: f.Aggregate, Except: except, Discarded: f.Discarded}
	if f.OlderThan > 0 {
		chosen.Before = now.Add(-f.OlderThan)
	}
	return chosen
}

// chosen are the aggregates that the flags choose.
type chosen struct {
	found []park.Listed
	// total also counts those beyond the limit.
	total int64
	// entries are those of the catalog.
	entries map[string]*catalog.Entry
	// foreign are the projections of other event stores, which share the state database.
	foreign []string
}

// choose lists the aggregates that the flags choose, among those of the configured event
// store. A projection without an entry in the catalog counts as one of them.
func (f parkedFilter) choose(ctx context.Context, e *Environment, s *stored) (c chosen, err error) {
	entries, err := s.entries(ctx)
	if err != nil {
		return c, err
	}
	return f.chooseAmong(ctx, e, s, entries)
}

// chooseAmong is choose with the entries of the catalog, and without the projections in except.
func (f parkedFilter) chooseAmong(ctx context.Context, e *Environment, s *stored, entries map[string]*catalog.Entry, except ...string) (c chosen, err error) {
	c.entries = entries
	c.foreign = namesOf(entries, func(entry *catalog.Entry) bool { return !e.Config.Pipeline().SameEvents(entry.Pipeline) })
	if slices.Contains(c.foreign, f.Projection) {
		return c, fmt.Errorf("projection %s belongs to the pipeline %s: %w", f.Projection, entries[f.Projection].Pipeline, errOtherPipeline)
	}
	filter := f.filter(time.Now(), slices.Concat(c.foreign, except))
	if c.total, err = s.parked.Matching(ctx, filter); err != nil {
		return c, err
	}
	if c.total == 0 && f.Projection != "" {
		if err := f.checkProjection(ctx, s); err != nil {
			return c, err
		}
	}
	c.found, err = s.parked.List(ctx, filter, f.Limit)
	c.total = max(c.total, int64(len(c.found)))
	return c, err
}

// scope says which event store the command has looked at, if the state database has several.
func (c chosen) scope(e *Environment) string {
	if len(c.foreign) == 0 {
		return ""
	}
	return fmt.Sprintf(" in the projections of event store %s (PENSTOCK_EVENTS_DATABASE, PENSTOCK_EVENTS_COLLECTION); those of other event stores are %s", e.Config.Pipeline().EventStore, strings.Join(c.foreign, ", "))
}

// errNothingParked is returned if the flags choose no aggregate.
var errNothingParked = errors.New("no parked aggregate matches")

// nothing returns the error of a command that changes aggregates, if it has chosen none.
func (c chosen) nothing(e *Environment) error {
	return fmt.Errorf("%w%s: see \"projector parked list\"", errNothingParked, c.scope(e))
}

type parkedListCommand struct {
	parkedFilter
	cli.Output
}

func (c *parkedListCommand) runOn(ctx context.Context, e *Environment, s *stored) error {
	all, err := c.choose(ctx, e, s)
	if err != nil {
		return err
	}
	columns := parkedColumns(time.Now(), all.entries)
	if c.JSON() {
		err = cli.List(e.stdout, c.Output, all.found, columns)
	} else {
		err = cli.List(e.stdout, c.Output, byEvent(all.found), together(columns))
	}
	if err != nil {
		return err
	}
	switch {
	case all.total == 0 && (c.Reason != "" || c.Aggregate != "" || c.OlderThan > 0):
		fmt.Fprintf(e.stderr, "%v%s\n", errNothingParked, all.scope(e))
	case all.total == 0:
		fmt.Fprintf(e.stderr, "no parked aggregates%s\n", all.scope(e))
	case all.total > int64(len(all.found)):
		fmt.Fprintf(e.stderr, "%d of %d parked aggregates are shown; raise --limit, or choose by the other flags\n", len(all.found), all.total)
	}
	return nil
}

// checkProjection fails if the projection is neither in the catalog nor has markers.
func (f parkedFilter) checkProjection(ctx context.Context, s *stored) error {
	for _, discarded := range []bool{false, true} {
		if n, err := s.parked.Matching(ctx, park.Filter{Projection: f.Projection, Discarded: discarded}); n > 0 || err != nil {
			return err
		}
	}
	_, err := projectionName{f.Projection}.entry(ctx, s)
	return err
}

// byEvent groups markers: those of one aggregate with the same event and reason are one group,
// because one event can fail in several projections. The order is that of the first of each.
func byEvent(found []park.Listed) [][]park.Listed {
	type key struct {
		aggregate, reason string
		event             int64
		discarded         bool
	}
	at := map[key]int{}
	var groups [][]park.Listed
	for _, m := range found {
		of := key{m.AggregateID, m.Reason, m.EventID, m.Discarded != nil}
		i, ok := at[of]
		if !ok {
			i = len(groups)
			at[of], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], m)
	}
	return groups
}

// together makes the columns of a group from those of its markers: a cell has each different text
// once.
func together(columns func(park.Listed) []cli.Field) func([]park.Listed) []cli.Field {
	return func(group []park.Listed) []cli.Field {
		fields := columns(group[0])
		for i := range fields {
			texts := []string{fields[i].Text}
			for _, m := range group[1:] {
				if text := columns(m)[i].Text; !slices.Contains(texts, text) {
					texts = append(texts, text)
				}
			}
			fields[i].Text = strings.Join(texts, ", ")
		}
		return fields
	}
}

// parkedColumns are the columns of a list; ages are relative to now.
func parkedColumns(now time.Time, entries map[string]*catalog.Entry) func(park.Listed) []cli.Field {
	return func(m park.Listed) []cli.Field {
		name := m.Projection
		if m.Generation > 1 {
			name = fmt.Sprintf("%s (generation %d)", m.Projection, m.Generation)
		}
		return []cli.Field{
			{Name: "projection", Text: name},
			{Name: "aggregate", Text: m.AggregateID},
			{Name: "reason", Text: m.Reason},
			{Name: "event", Text: strconv.FormatInt(m.EventID, 10)},
			{Name: "head", Text: strconv.FormatInt(m.Head, 10)},
			{Name: "age", Text: cli.Age(now, m.ParkedAt)},
			{Name: "next", Text: next(m, entries)},
			{Name: "error", Text: m.Error},
		}
	}
}

// next describes what will happen to a parked aggregate. An aggregate that is parked in a
// generation that is being built fails by the new definition, which a rollout corrects. No
// projector writes a retired projection.
func next(m park.Listed, entries map[string]*catalog.Entry) string {
	entry := cmp.Or(entries[m.Projection], &catalog.Entry{})
	switch {
	case m.Discarded != nil:
		return "discarded"
	case entry.RetiredAt != nil:
		return "projection is retired"
	case m.RetryAt == nil && entry.Building != nil && entry.Building.Generation == m.Generation:
		return "roll out a correction"
	case m.RetryAt == nil:
		return "parked retry"
	case m.Claimed:
		return "being resumed"
	}
	return "resumes by itself"
}

type parkedShowCommand struct {
	cli.Output
	Projection string `arg:"" help:"The projection."`
	Aggregate  string `arg:"" help:"The aggregate's id."`
}

func (c *parkedShowCommand) runOn(ctx context.Context, e *Environment, s *stored) error {
	found, err := s.markers(ctx, park.Filter{Projection: c.Projection, AggregateID: c.Aggregate})
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("aggregate %q is not parked in projection %s: see \"projector parked list\"", c.Aggregate, c.Projection)
	}
	if c.JSON() {
		return cli.PrintJSON(e.stdout, found)
	}
	entries, err := s.entries(ctx)
	if err != nil {
		return err
	}
	for _, m := range found {
		if err := cli.Show(e.stdout, c.Output, m, parkedFields(m, entries)); err != nil {
			return err
		}
	}
	return nil
}

// markers lists the markers that the filter selects, discarded or not.
func (s *stored) markers(ctx context.Context, f park.Filter) ([]park.Listed, error) {
	found := []park.Listed{} // An empty list, because commands print it as JSON.
	for _, discarded := range []bool{false, true} {
		f.Discarded = discarded
		some, err := s.parked.List(ctx, f, 0)
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	return found, nil
}

// parkedFields are the fields of one parked aggregate. An aggregate has more than one
// marker only while a projection is rebuilt.
func parkedFields(m park.Listed, entries map[string]*catalog.Entry) []cli.Field {
	discarded := ""
	if m.Discarded != nil {
		discarded = fmt.Sprintf("by %s at %s: %s", m.Discarded.Who, cli.Time(m.Discarded.At), m.Discarded.Why)
	}
	return []cli.Field{
		{Name: "projection", Text: m.Projection},
		{Name: "generation", Text: strconv.FormatInt(m.Generation, 10)},
		{Name: "aggregate", Text: m.AggregateID},
		{Name: "reason", Text: m.Reason},
		{Name: "event", Text: strconv.FormatInt(m.EventID, 10)},
		{Name: "message", Text: m.MessageID},
		{Name: "acknowledged up to event", Text: strconv.FormatInt(m.Head, 10)},
		{Name: "parked at", Text: cli.Time(m.ParkedAt)},
		{Name: "next", Text: next(m, entries)},
		{Name: "next attempt", Text: optionalTime(m.RetryAt)},
		{Name: "attempts", Text: optionalCount(m.Attempts)},
		{Name: "retries on request", Text: optionalCount(m.Retries)},
		{Name: "last retry on request", Text: optionalTime(m.RetriedAt)},
		{Name: "discarded", Text: discarded},
		{Name: "error", Text: m.Error},
	}
}

func optionalTime(at *time.Time) string {
	if at == nil {
		return ""
	}
	return cli.Time(*at)
}

// optionalCount formats a number; empty for 0.
func optionalCount[N int | int64](n N) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}
