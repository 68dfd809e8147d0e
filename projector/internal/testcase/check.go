package testcase

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection/authoring"
)

// number returns the step's number in failures: 0 if the case has only one step.
func (c *Case) number(step int) int {
	if len(c.Steps) == 1 {
		return 0
	}
	return step + 1
}

// check compares the state after a step with what the step expects.
func (c *Case) check(step int, got State) (failures []Failure) {
	s := &c.Steps[step]
	fail := func(line int, projection, aggregate, message string, differences []Difference) {
		failures = append(failures, Failure{Line: line, Step: c.number(step), Subject: projection + " " + aggregate, Message: message, Differences: differences})
	}
	named := map[string]map[string]bool{}
	for _, e := range s.Expect {
		if named[e.Projection] == nil {
			named[e.Projection] = map[string]bool{}
		}
		if e.Document.Type == 0 {
			continue
		}
		named[e.Projection][e.AggregateID] = true
		document := got.document(e.Projection, e.AggregateID)
		switch none := document.Type == 0; {
		case e.Document.Type == bson.TypeNull && none:
		case e.Document.Type == bson.TypeNull:
			fail(e.at.Line, e.Projection, e.AggregateID, "expected no document, got "+show(shown(document, bson.RawValue{})), nil)
		case none:
			fail(e.at.Line, e.Projection, e.AggregateID, c.whyNone(e, got), nil)
		default:
			if d := differences("", e.Document, shown(document, e.Document), s.Exact); len(d) > 0 {
				fail(e.at.Line, e.Projection, e.AggregateID, "", d)
			}
		}
	}
	if s.Exact {
		for _, projection := range slices.Sorted(maps.Keys(named)) {
			for _, aggregate := range slices.Sorted(maps.Keys(got.Documents[projection])) {
				if !named[projection][aggregate] {
					fail(s.Line, projection, aggregate, "expected no document (exact), got "+show(shown(got.document(projection, aggregate), bson.RawValue{})), nil)
				}
			}
		}
	}
	for _, p := range s.Parked {
		found := got.parked(p.Projection, p.AggregateID)
		if found == nil {
			fail(p.at.Line, p.Projection, p.AggregateID, "expected to be parked, and is not", nil)
			continue
		}
		var d []Difference
		if p.EventID >= 0 && p.EventID != found.EventID {
			d = append(d, Difference{"parked at eventId", fmt.Sprint(p.EventID), fmt.Sprint(found.EventID)})
		}
		if p.Reason != "" && p.Reason != found.Reason {
			d = append(d, Difference{"parked for reason", p.Reason, fmt.Sprintf("%s: %s", found.Reason, found.Error)})
		}
		if !strings.Contains(found.Error, p.Error) {
			d = append(d, Difference{"parked with error", "…" + p.Error + "…", found.Error})
		}
		if len(d) > 0 {
			fail(p.at.Line, p.Projection, p.AggregateID, "", d)
		}
	}
	for _, p := range got.Parked {
		expected := slices.ContainsFunc(s.Parked, func(e ExpectedParked) bool { return e.Projection == p.Projection && e.AggregateID == p.AggregateID })
		if !expected {
			fail(c.lineOf(step, p), p.Projection, p.AggregateID, fmt.Sprintf("parked at event %d (%s): %s", p.EventID, p.Reason, p.Error), nil)
		}
	}
	return failures
}

// shown returns a document without those fields of the engine that the expected document
// does not name. The number of parts is the engine's in a document without a watermark, which
// is that of a view.
func shown(document, want bson.RawValue) bson.RawValue {
	whole, _ := document.DocumentOK()
	wanted, _ := want.DocumentOK()
	d := bson.D{}
	view := whole.Lookup(model.FieldLastEventID).Type == 0
	for _, f := range elementsOf(whole) {
		name := f.Key()
		engine := name == model.FieldID || name == model.FieldLastEventID || name == model.FieldParts && view
		if !engine || wanted.Lookup(name).Type != 0 {
			d = append(d, bson.E{Key: name, Value: f.Value()})
		}
	}
	return valueOf(d)
}

// whyNone explains why there is no document.
func (c *Case) whyNone(e Expected, got State) string {
	if p := got.parked(e.Projection, e.AggregateID); p != nil {
		return "expected a document, got nothing, because the aggregate is parked"
	}
	text := "expected a document, got nothing"
	if ids := slices.Sorted(maps.Keys(got.Documents[e.Projection])); len(ids) > 0 {
		text += "; there are documents of " + strings.Join(ids, ", ")
	}
	if ids := got.Homeless[e.Projection]; len(ids) > 0 {
		text += "; without a key, and so in no document, are the parts of " + strings.Join(ids, ", ")
	}
	return text
}

// lineOf returns the line of the event at which an aggregate is parked, or the line of
// the step if the event is not in the case.
func (c *Case) lineOf(step int, p Parked) int {
	for _, s := range c.Steps {
		for _, ev := range s.Given {
			if ev.AggregateID == p.AggregateID && ev.EventID == p.EventID {
				return ev.Line
			}
		}
	}
	return c.Steps[step].Line
}

// compare compares the state after a step with that of the second fold. The order of fields may
// depend on the batches.
func (c *Case) compare(step int, once, again State) (failures []Failure) {
	fail := func(projection, aggregate string, d ...Difference) {
		failures = append(failures, Failure{
			Line: c.Steps[step].Line, Step: c.number(step), Subject: projection + " " + aggregate,
			Differences: d, Again: true,
		})
	}
	for _, projection := range keysOf(once.Documents, again.Documents) {
		for _, aggregate := range keysOf(once.Documents[projection], again.Documents[projection]) {
			changes, _ := authoring.Changes(once.Documents[projection][aggregate], again.Documents[projection][aggregate])
			var d []Difference
			for _, f := range changes {
				d = append(d, Difference{f.Path, cmp.Or(f.Before, nothing), cmp.Or(f.After, nothing)})
			}
			if d != nil {
				fail(projection, aggregate, d...)
			}
		}
	}
	for _, p := range slices.Concat(once.Parked, again.Parked) {
		before, after := once.parked(p.Projection, p.AggregateID).text(), again.parked(p.Projection, p.AggregateID).text()
		if before != after && (p.text() == before || before == notParked) {
			fail(p.Projection, p.AggregateID, Difference{"parked", before, after})
		}
	}
	return failures
}

const notParked = "not parked"

func (p *Parked) text() string {
	if p == nil {
		return notParked
	}
	return fmt.Sprintf("at event %d (%s)", p.EventID, p.Reason)
}

// keysOf returns the sorted keys of two maps.
func keysOf[V any](a, b map[string]V) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}
