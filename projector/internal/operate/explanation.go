package operate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/authoring"
)

// printLines prints the lines of a result. what names it in the error.
func printLines(w io.Writer, what string, lines func(printer)) error {
	p := printer{bufio.NewWriter(w)}
	lines(p)
	if err := p.Flush(); err != nil {
		return fmt.Errorf("print the %s: %w", what, err)
	}
	return nil
}

// explanations prints explanations as text.
func (p printer) explanations(all []explanation) {
	for i, x := range all {
		if i > 0 {
			p.line(0, "")
		}
		p.explanation(x)
	}
}

// printer prints indented lines. It removes control characters, because the texts come from
// events and could otherwise control the terminal. The writer keeps the first error.
type printer struct{ *bufio.Writer }

func (p printer) line(depth int, format string, args ...any) {
	_, _ = p.WriteString(strings.TrimRight(strings.Repeat("  ", depth)+cli.Plain(fmt.Sprintf(format, args...)), " ") + "\n")
}

func (p printer) explanation(x explanation) {
	generation := ""
	if x.Generation > 0 {
		generation = fmt.Sprintf("generation %d, ", x.Generation)
	}
	kind, document := "projection", "document"
	if x.View {
		kind, document = "view", "part"
	}
	p.line(0, "%s %s (%sdefinition %s, from %s), aggregate %s", kind, x.Projection, generation, x.Hash, x.Origin, x.AggregateID)
	if x.NotShown > 0 {
		p.line(0, "earlier events, folded and not shown: %d (see --last)", x.NotShown)
	}
	for _, step := range x.Steps {
		p.step(step, x.Parked, document)
	}
	if k := x.Parked; k != nil {
		p.parking(*k)
	}
	more := ""
	if x.Partial {
		more = "; later events were not read"
	}
	at := fmt.Sprintf("after event %d", x.LastEventID)
	if x.LastEventID < 0 {
		at = "before event 0"
	}
	if string(x.Document) == "null" {
		p.line(0, "%s there is no %s%s", at, document, more)
		return
	}
	p.line(0, "the %s %s%s:", document, at, more)
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, x.Document, "", "  "); err == nil {
		for line := range strings.Lines(pretty.String()) {
			p.line(1, "%s", strings.TrimSuffix(line, "\n"))
		}
	}
	switch {
	case len(x.Keys) > 0:
		p.line(0, "it contributes to %s", strings.Join(x.Keys, ", "))
	case x.View:
		p.line(0, "it contributes to no document: it has no key, or each gives no elements")
	}
}

func (p printer) step(s authoring.Step, parked *explainedParking, document string) {
	if s.Outcome == waits && parked != nil {
		// One line after the steps counts the waiting events.
		return
	}
	p.line(0, "")
	head := fmt.Sprintf("event %d  %s", s.EventID, s.EventType)
	if at := cli.Time(s.Timestamp); at != "" {
		head += "  " + at
	}
	outcome := string(s.Outcome)
	switch {
	case s.Outcome == authoring.Failed:
		outcome = "parks the aggregate"
	case s.Why != "":
		outcome += ": " + s.Why
	case s.Created:
		outcome += ": the " + document + " is created"
	case s.Deleted:
		outcome += ": the " + document + " is deleted"
	case len(s.Changes) == 0:
		outcome += ": nothing changed"
	}
	p.line(0, "%s  %s", head, outcome)
	for _, e := range s.Evaluations {
		p.evaluation(e)
	}
	for _, c := range s.Changes {
		p.line(1, "%s: %s -> %s", c.Path, orNothing(c.Before), orNothing(c.After))
	}
	if s.More > 0 {
		p.line(1, "and %d more fields", s.More)
	}
	for _, d := range s.Documents {
		p.line(1, "document %s %s", d.Key, d.What)
		for _, c := range d.Totals {
			p.line(3, "%s: %s -> %s", c.Path, orNothing(c.Before), orNothing(c.After))
		}
	}
}

func (p printer) evaluation(e projection.Evaluation) {
	result := e.Result
	switch {
	case e.Error != "":
		result = "fails: " + e.Error
	case result == "":
		result = "nothing (an empty optional)"
	}
	p.line(1, "%s: %s  =>  %s", e.Word, e.Expression, result)
	var inputs []string
	for _, i := range e.Inputs {
		inputs = append(inputs, i.Path+" = "+orNothing(i.Value))
	}
	// An expression that is a single field has printed its value already.
	if len(e.Inputs) > 1 || len(e.Inputs) == 1 && (e.Inputs[0].Path != e.Expression || e.Result == "") {
		p.line(3, "%s", strings.Join(inputs, ", "))
	}
}

func (p printer) parking(k explainedParking) {
	p.line(0, "")
	kind := ""
	if k.EventType != "" {
		kind = fmt.Sprintf(" (%s)", k.EventType)
	}
	p.line(0, "projectors park the aggregate at event %d%s, reason %s: %s", k.EventID, kind, k.Reason, k.Error)
	waiting := "no later event was read"
	if k.Waiting > 0 {
		waiting = fmt.Sprintf("events that wait behind it in the event store: %d", k.Waiting)
	}
	if k.Resumes {
		p.line(0, "%s; the aggregate resumes by itself when the event store has the event", waiting)
	} else {
		p.line(0, "%s; after a correction, \"projector parked retry\" applies them", waiting)
	}
	p.line(0, "")
}
