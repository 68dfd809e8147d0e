package operate

import (
	"fmt"
	"time"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/poll"
)

// shownFields and shownParks bound the printed lines of each projection; JSON has all.
const (
	shownFields = 20
	shownParks  = 10
)

// difference prints the effect of changed definitions as text.
func (p printer) difference(d difference) {
	for _, c := range d.Projections {
		p.comparison(c)
		p.line(0, "")
	}
	p.line(0, "sample: %s with %s, of which %d break the event contract", cli.Count(d.Aggregates, "aggregate"), cli.Count(d.Events, "event"), d.Unreadable)
	p.rollout(d.Rollout)
}

func (p printer) comparison(c *comparison) {
	switch c.Kind {
	case changedKind:
		p.line(0, "%s: changed, definition %s -> %s", c.Projection, c.before.Hash(), c.after.Hash())
	case newKind:
		p.line(0, "%s: new, definition %s", c.Projection, c.after.Hash())
	default:
		p.line(0, "%s: %s", c.Projection, c.Kind)
	}
	for _, line := range c.Difference {
		p.line(1, "%s", line)
	}
	switch {
	case c.Kind == newKind:
		p.line(1, "%d of the sampled aggregates concern it", c.Aggregates)
	case c.folds():
		document := "document"
		if c.after.View() != nil {
			document = "part of the view"
		}
		p.line(1, "of %d sampled aggregates that concern it, %d would have a different %[5]s, %[3]d would get a %[5]s, %[4]d would lose their %[5]s", c.Aggregates, c.Differ, c.Appear, c.Vanish, document)
	}
	if c.Documents {
		p.line(1, "the documents of the view change, too: their lists, fields or totals are made of the parts in another way")
	}
	for i, f := range c.Fields {
		if i == shownFields {
			p.line(2, "and %d more fields: see --output json", len(c.Fields)-i)
			break
		}
		p.line(2, "%s differs in %d, such as %s: %s -> %s", f.Path, f.Aggregates, f.Example.AggregateID, orNothing(f.Example.Before), orNothing(f.Example.After))
	}
	if c.OtherFields > 0 {
		p.line(2, "and further fields, %d changes", c.OtherFields)
	}
	if c.Freed > 0 {
		p.line(1, "%d that are parked by the present definition would get further", c.Freed)
	}
	if c.Parks > 0 {
		p.line(1, "%d WOULD BE PARKED that are not now, or earlier than now:", c.Parks)
	}
	for i, k := range c.Parking {
		if i == shownParks {
			p.line(2, "and for %d more reasons: see --output json", len(c.Parking)-i)
			break
		}
		kind := ""
		if k.EventType != "" {
			kind = " (" + k.EventType + ")"
		}
		p.line(2, "%d for %s, such as %s at event %d%s: %s", k.Aggregates, k.Reason, k.AggregateID, k.EventID, kind, k.Error)
	}
	p.line(1, "rollout: %s", c.Rollout)
}

func (p printer) rollout(r rolloutCost) {
	if r.Builds == 0 {
		p.line(0, "a rollout builds nothing")
		return
	}
	text := fmt.Sprintf("a rollout builds %s, and reads about %s for the build and the verification", cli.Count(int64(r.Builds), "projection"), cli.Count(r.Reads, "event"))
	if r.Rate == 0 {
		text += "; PENSTOCK_REFOLD_RATE sets no limit"
	} else {
		text += fmt.Sprintf(": about %s with one pod at PENSTOCK_REFOLD_RATE=%d", poll.Duration(time.Duration(r.Seconds)*time.Second), r.Rate)
	}
	p.line(0, "%s", text)
}
