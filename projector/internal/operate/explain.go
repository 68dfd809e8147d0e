package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/fold"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/authoring"
)

// explainCommand shows for each event of an aggregate what it did to the read models.
type explainCommand struct {
	cli.Output
	Aggregate  string    `name:"aggregate" placeholder:"ID" help:"The aggregate to explain."`
	Projection []string  `name:"projection" placeholder:"NAME" help:"Only these projections; the default is all."`
	From       string    `name:"from" placeholder:"FILE" help:"Read the events from this file instead of the event store: one event per line as Extended JSON, in the format of mongoexport, also compressed by gzip."`
	Last       int       `name:"last" placeholder:"N" help:"Explain the last N events; the default is 100. All events before them are folded."`
	Until      *int64    `name:"until" placeholder:"EVENTID" help:"Stop after the event with this id."`
	At         time.Time `name:"at" placeholder:"TIME" help:"Stop before the first event whose time is later, such as 2026-03-01T12:00:00Z, or 2026-03-01 for the beginning of that day in UTC: the read model as it was."`
	Document   bool      `name:"document" help:"Print the document alone, as Extended JSON; null if there is none."`
}

// Bounds of the number of explained events.
const (
	defaultExplained = 100
	maxExplained     = 10_000
)

// needs returns the stores only if the events come from there. If the projections come from
// the catalog, run validates the rest.
func (c *explainCommand) needs() config.Part {
	if c.From != "" {
		return config.PartFields
	}
	return config.PartMongoDB | config.PartFields
}

// Validate checks the flags. kong calls it.
func (c *explainCommand) Validate() error {
	var p cli.Problems
	p.Require(c.Aggregate != "", "--aggregate is not set: name the aggregate to explain")
	p.Require(c.Last >= 0 && c.Last <= maxExplained, "--last is %d: use 1 to %d", c.Last, maxExplained)
	p.Require(c.Until == nil || *c.Until >= 0, "--until is negative: use the id of an event")
	p.Require(!c.Document || !c.JSON(), "--document and --output=json exclude each other: the document is JSON")
	return errors.Join(p...)
}

// explanation is what the events of an aggregate did to one read model.
type explanation struct {
	Projection string `json:"projection"`
	// Generation is 0 for a projection of a file.
	Generation  int64  `json:"generation,omitempty"`
	Hash        string `json:"hash"`
	Origin      string `json:"origin"`
	AggregateID string `json:"aggregateId"`
	// Events is the number of events read, and NotShown how many of them Steps leaves out.
	Events   int64            `json:"events"`
	NotShown int64            `json:"notShown"`
	Steps    []authoring.Step `json:"steps"`
	// Parked is where the aggregate would be parked; nil if it would not.
	Parked *explainedParking `json:"parked,omitempty"`
	// LastEventID is the watermark after the events. Document has the read model's own
	// fields as relaxed Extended JSON; null if there is no document.
	LastEventID int64           `json:"lastEventId"`
	Document    json.RawMessage `json:"document"`
	// View says that Document is the aggregate's part of a view, which contributes to the
	// documents with these Keys.
	View bool     `json:"view,omitempty"`
	Keys []string `json:"keys,omitempty"`
	// Partial means that later events exist and were not read.
	Partial bool `json:"partial,omitempty"`
}

// explainedParking says where an aggregate is parked.
type explainedParking struct {
	EventID   int64             `json:"eventId"`
	EventType string            `json:"eventType,omitempty"`
	Reason    projection.Reason `json:"reason"`
	Error     string            `json:"error"`
	// Resumes means that the aggregate resumes by itself when the reason has gone.
	Resumes bool `json:"resumesByItself"`
	// Waiting is how many of the read events wait behind that event.
	Waiting int64 `json:"waiting"`
}

// errEnough ends the reading of events.
var errEnough = errors.New("enough events were read")

func (c *explainCommand) run(ctx context.Context, e *Environment) error {
	projections, err := e.foldables(ctx, c.Projection)
	if err != nil {
		return err
	}
	explainers := make([]*explainer, len(projections))
	for i, p := range projections {
		explainers[i] = newExplainer(c, p, e.Config.Fields.FirstEventID)
	}
	var read int64
	partial := false
	visit := func(ev *event.Event, broken error) error {
		if ev.AggregateID != c.Aggregate {
			return nil
		}
		if c.Until != nil && ev.EventID > *c.Until || !c.At.IsZero() && ev.Timestamp.After(c.At) {
			partial = true
			return errEnough
		}
		read++
		for _, x := range explainers {
			x.add(ev, broken)
		}
		return nil
	}
	if err := c.read(ctx, e, visit); err != nil && !errors.Is(err, errEnough) {
		return err
	}
	if read == 0 && partial {
		return fmt.Errorf("aggregate %q had no event at that time: its first event is later", c.Aggregate)
	}
	if read == 0 {
		return fmt.Errorf("%s has no event of aggregate %q: check the id", cmp.Or(c.From, "the event store"), c.Aggregate)
	}
	results := make([]explanation, len(explainers))
	for i, x := range explainers {
		if results[i], err = x.result(partial); err != nil {
			return err
		}
	}
	if c.Document {
		if len(results) > 1 {
			return fmt.Errorf("--document prints one read model, and there are %d: choose one by --projection", len(results))
		}
		if results[0].View {
			fmt.Fprintf(e.stderr, "this is the part of aggregate %q in the view %s, not one of the documents that readers see; it contributes to: %s\n", c.Aggregate, results[0].Projection, cmp.Or(strings.Join(results[0].Keys, ", "), "none"))
		}
		return cli.PrintJSON(e.stdout, results[0].Document)
	}
	if c.JSON() {
		return cli.PrintJSON(e.stdout, results)
	}
	return printLines(e.stdout, "explanation", func(p printer) { p.explanations(results) })
}

// read calls visit with the events of the file or of the event store.
func (c *explainCommand) read(ctx context.Context, e *Environment, visit func(*event.Event, error) error) error {
	if c.From != "" {
		wanted := func(ev *event.Event) bool { return ev.AggregateID == c.Aggregate }
		return readEventFile(c.From, e.Config.EventFields(), wanted, visit)
	}
	s, err := e.connect(ctx)
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	reader, err := s.events(ctx)
	if err != nil {
		return err
	}
	return readAggregate(ctx, reader, c.Aggregate, visit)
}

// explainer folds the events of one aggregate in one projection, and explains only the last ones,
// because an explanation copies the document.
type explainer struct {
	command *explainCommand
	foldable
	replay *replay
	// last is a ring of the last keep events, which are not folded yet; next is the index of the
	// oldest one.
	last       []readEvent
	keep, next int
}

func newExplainer(c *explainCommand, p foldable, firstEvent int64) *explainer {
	return &explainer{command: c, foldable: p, replay: newReplay(p.Projection, firstEvent), keep: cmp.Or(c.Last, defaultExplained)}
}

func (x *explainer) add(ev *event.Event, broken error) {
	if len(x.last) < x.keep {
		x.last = append(x.last, readEvent{ev, broken})
		return
	}
	oldest := &x.last[x.next]
	x.replay.add(oldest.Event, oldest.broken)
	*oldest = readEvent{ev, broken}
	x.next = (x.next + 1) % x.keep
}

func (x *explainer) result(partial bool) (explanation, error) {
	var steps []authoring.Step
	for _, ev := range slices.Concat(x.last[x.next:], x.last[:x.next]) {
		steps = append(steps, x.replay.explain(ev.Event, ev.broken))
	}
	r := explanation{
		Projection: x.Name(), Generation: x.generation, Hash: x.Hash(), Origin: x.origin, AggregateID: x.command.Aggregate,
		Events: x.replay.events, NotShown: x.replay.events - int64(len(steps)), Steps: steps,
		LastEventID: x.replay.next() - 1, Document: json.RawMessage("null"), Partial: partial,
	}
	if p := x.replay.parked; p != nil {
		r.Parked = &explainedParking{
			EventID: p.EventID, EventType: p.EventType, Reason: p.Reason, Error: p.Err.Error(), Resumes: p.Reason.Resumes(),
			Waiting: x.replay.waiting,
		}
	}
	state := x.replay.fold.State()
	if r.View = x.View() != nil; r.View {
		r.Keys = slices.Sorted(maps.Keys(fold.Contributions(state)))
		state = fold.WithoutDocuments(state)
	}
	if state != nil {
		text, err := bson.MarshalExtJSON(state, false, false)
		if err != nil {
			return explanation{}, fmt.Errorf("show the read model of aggregate %q in projection %s: %w", r.AggregateID, r.Projection, err)
		}
		r.Document = text
	}
	return r, nil
}
