package health

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/pkg/cli"
)

// State is a verdict on a process, and what a condition makes of it.
type State string

// States, from the best to the worst.
const (
	// OK means that nothing is wrong.
	OK State = "ok"
	// Degraded means that the process works, but a person must look.
	Degraded State = "degraded"
	// NotReady means that the process cannot do its work. /readyz answers 503.
	NotReady State = "not ready"
)

var states = []State{OK, Degraded, NotReady}

// worse compares states: positive if s is worse than other.
func (s State) worse(other State) int { return slices.Index(states, s) - slices.Index(states, other) }

// Condition is a reason why a process is not [OK].
type Condition struct {
	// Name identifies the kind of condition, such as "broker-unreachable". It is the label
	// of a metric, so a service has a fixed set of names.
	Name string `json:"name" bson:"name"`
	// Subject is the affected object if several can be affected, such as a projection. Name
	// and Subject together identify the condition.
	Subject string `json:"subject,omitempty" bson:"subject,omitempty"`
	// State is [Degraded] or [NotReady].
	State State `json:"state" bson:"state"`
	// Text is what is wrong: a sentence without a period at its end.
	Text string `json:"text" bson:"text"`
	// Remedy is what a person does: a sentence or a command. It is empty if Text has the
	// remedy, as the errors of checks have.
	Remedy string `json:"remedy,omitempty" bson:"remedy,omitempty"`
	// Since is when the condition began. [Health.Verdict] sets it if the source does not.
	Since time.Time `json:"since,omitzero" bson:"since"`
}

// String formats the condition as one line, without the control characters that errors and the
// reasons of commands can have.
func (c Condition) String() string { return cli.Plain(c.Title() + ": " + c.Detail()) }

// Detail is the text with the remedy.
func (c Condition) Detail() string {
	if c.Remedy == "" {
		return c.Text
	}
	return c.Text + ". " + c.Remedy
}

// Title is the name with the subject.
func (c Condition) Title() string {
	if c.Subject == "" {
		return c.Name
	}
	return c.Name + " " + c.Subject
}

// key identifies a condition.
func (c Condition) key() [2]string { return [2]string{c.Name, c.Subject} }

// Verdict is the state of a process, and the reasons.
type Verdict struct {
	State State `json:"state" bson:"state"`
	// Conditions are the reasons, the worst first; none if the state is [OK].
	Conditions []Condition `json:"conditions" bson:"conditions"`
}

// Judge makes a verdict of conditions. Of conditions with the same name and subject, the
// first one counts.
func Judge(conditions []Condition) Verdict {
	v := Verdict{State: OK, Conditions: []Condition{}}
	for _, c := range conditions {
		if slices.ContainsFunc(v.Conditions, func(known Condition) bool { return known.key() == c.key() }) {
			continue
		}
		if c.State.worse(v.State) > 0 {
			v.State = c.State
		}
		v.Conditions = append(v.Conditions, c)
	}
	slices.SortStableFunc(v.Conditions, func(a, b Condition) int {
		return cmp.Or(b.State.worse(a.State), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Subject, b.Subject))
	})
	return v
}

// String formats the verdict: the state, then each condition on a line of its own.
func (v Verdict) String() string {
	var text strings.Builder
	text.WriteString(string(v.State))
	for _, c := range v.Conditions {
		text.WriteString("\n" + c.String())
	}
	return text.String()
}
