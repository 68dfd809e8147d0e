package operate

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/fold"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/authoring"
)

// comparison shows what two definitions of one projection make of the same aggregates.
type comparison struct {
	Projection string `json:"projection"`
	// Kind is unchanged, changed, new or removed.
	Kind changeKind `json:"kind"`
	// Difference are the lines of the definitions that differ.
	Difference []string `json:"difference,omitempty"`
	// Documents means that documents of the view change in more than their parts show.
	Documents bool `json:"documents,omitempty"`
	// Rollout describes what a rollout of the new definition starts.
	Rollout string `json:"rollout"`
	// Builds means that the rollout folds the whole event store.
	Builds bool `json:"builds"`
	// Aggregates is how many of the sampled aggregates concern the projection. Of these,
	// Differ get another document, Appear get one that they lack now, and Vanish lose
	// theirs.
	Aggregates int64 `json:"aggregates"`
	Differ     int64 `json:"differ"`
	Appear     int64 `json:"appear"`
	Vanish     int64 `json:"vanish"`
	// Fields are the fields that differ. OtherFields counts the changes of fields beyond
	// the limit.
	Fields      []*fieldTally `json:"fields,omitempty"`
	OtherFields int64         `json:"otherFields,omitempty"`
	// Parks is how many aggregates would park that do not park now, or park at a later
	// event now. Freed is the reverse. Parking has the reasons.
	Parks   int64        `json:"parks"`
	Freed   int64        `json:"freed"`
	Parking []*parkTally `json:"parking,omitempty"`
	before  *projection.Projection
	after   *projection.Projection
	fields  map[string]*fieldTally
	parking map[string]*parkTally
}

// changeKind says how a projection changes.
type changeKind string

// The kinds.
const (
	unchangedKind changeKind = "unchanged"
	changedKind   changeKind = "changed"
	newKind       changeKind = "new"
	removedKind   changeKind = "removed"
)

// fieldTally counts the documents in which a field differs.
type fieldTally struct {
	// Path has [] for any element of an array.
	Path       string  `json:"path"`
	Aggregates int64   `json:"aggregates"`
	Example    example `json:"example"`
	last       string
}

// example is a field of one aggregate.
type example struct {
	AggregateID string `json:"aggregateId"`
	Before      string `json:"before,omitempty"`
	After       string `json:"after,omitempty"`
}

// parkTally counts the aggregates that would park for one reason.
type parkTally struct {
	Reason    projection.Reason `json:"reason"`
	EventType string            `json:"eventType,omitempty"`
	Error     string            `json:"error"`
	// Aggregates is their number; AggregateID and EventID belong to the first one.
	Aggregates  int64  `json:"aggregates"`
	AggregateID string `json:"aggregateId"`
	EventID     int64  `json:"eventId"`
}

// Bounds of the tallies that a comparison keeps.
const (
	maxTalliedFields = 200
	maxTalliedParks  = 100
)

// newComparison compares two definitions; before is nil for a new projection, after for
// one that is removed.
func newComparison(before, after *projection.Projection) *comparison {
	c := &comparison{before: before, after: after, fields: map[string]*fieldTally{}, parking: map[string]*parkTally{}}
	switch {
	case before == nil:
		c.Projection, c.Kind = after.Name(), newKind
	case after == nil:
		c.Projection, c.Kind = before.Name(), removedKind
	case before.Hash() == after.Hash():
		c.Projection, c.Kind = after.Name(), unchangedKind
	default:
		c.Projection, c.Kind, c.Difference = after.Name(), changedKind, authoring.Difference(before.Definition(), after.Definition())
		c.Documents = authoring.Layout(before.Definition()) != authoring.Layout(after.Definition())
	}
	return c
}

// folds reports whether the comparison must fold aggregates.
func (c *comparison) folds() bool { return c.Kind == changedKind || c.Kind == newKind }

// differs reports whether the projection is new or removed, the documents of a view change, or any
// sampled aggregate would differ.
func (c *comparison) differs() bool {
	return c.Kind == newKind || c.Kind == removedKind || c.Documents || c.Differ+c.Appear+c.Vanish+c.Parks+c.Freed > 0
}

// versus folds one aggregate by both definitions.
type versus struct {
	comparison    *comparison
	before, after *replay
}

func (c *comparison) begin(firstEvent int64) versus {
	v := versus{comparison: c, after: newReplay(c.after, firstEvent)}
	if c.before != nil {
		v.before = newReplay(c.before, firstEvent)
	}
	return v
}

func (v versus) add(ev *event.Event, broken error) {
	if v.before != nil {
		v.before.add(ev, broken)
	}
	v.after.add(ev, broken)
}

// end adds the results of the aggregate to the comparison.
func (v versus) end(aggregateID string) {
	c := v.comparison
	concerned := v.after.concerned()
	var was bson.Raw
	var wasParked *projection.Error
	if v.before != nil {
		was, wasParked = v.before.fold.State(), v.before.parked
		concerned = concerned || v.before.concerned()
	}
	if !concerned {
		return
	}
	c.Aggregates++
	switch p := v.after.parked; {
	case p != nil && (wasParked == nil || p.EventID < wasParked.EventID):
		c.Parks++
		c.park(p)
	case wasParked != nil && (p == nil || p.EventID > wasParked.EventID):
		c.Freed++
	}
	switch is := v.after.fold.State(); {
	case v.before == nil:
	case was == nil && is != nil:
		c.Appear++
	case was != nil && is == nil:
		c.Vanish++
	default:
		changes, more := v.changes(was, is)
		c.OtherFields += int64(more)
		if len(changes) > 0 {
			c.Differ++
		}
		for _, f := range changes {
			c.field(aggregateID, f)
		}
	}
}

// changes lists what differs between two documents, or between two parts of a view and what they
// contribute to its documents.
func (v versus) changes(was, is bson.Raw) (changes []authoring.FieldChange, more int) {
	if v.comparison.after.View() == nil {
		return authoring.Changes(was, is)
	}
	changes, more = authoring.Changes(fold.WithoutDocuments(was), fold.WithoutDocuments(is))
	var left, joined []string
	for _, d := range authoring.Documents(was, is) {
		switch d.What {
		case authoring.Left:
			left = append(left, d.Key)
		case authoring.Joined:
			joined = append(joined, d.Key)
		case authoring.Changed:
			for _, t := range d.Totals {
				t.Path = "what it adds to " + t.Path
				changes = append(changes, t)
			}
		}
	}
	if len(left)+len(joined) > 0 {
		changes = append(changes, authoring.FieldChange{Path: "its document", Before: strings.Join(left, ", "), After: strings.Join(joined, ", ")})
	}
	return changes, more
}

// index matches an array's index in a path.
var index = regexp.MustCompile(`\[[0-9]+\]`)

func (c *comparison) field(aggregateID string, f authoring.FieldChange) {
	path := index.ReplaceAllString(f.Path, "[]")
	tally := c.fields[path]
	if tally == nil {
		if len(c.fields) == maxTalliedFields {
			c.OtherFields++
			return
		}
		tally = &fieldTally{Path: path, Example: example{aggregateID, f.Before, f.After}}
		c.fields[path] = tally
	}
	if tally.Aggregates == 0 || tally.last != aggregateID {
		tally.Aggregates++
		tally.last = aggregateID
	}
}

func (c *comparison) park(p *projection.Error) {
	text := p.Err.Error()
	key := fmt.Sprint(p.Reason, " ", p.EventType, " ", text)
	tally := c.parking[key]
	if tally == nil {
		if len(c.parking) == maxTalliedParks {
			return
		}
		tally = &parkTally{Reason: p.Reason, EventType: p.EventType, Error: text, AggregateID: p.AggregateID, EventID: p.EventID}
		c.parking[key] = tally
	}
	tally.Aggregates++
}

// conclude sorts the tallies in the order in which they are printed.
func (c *comparison) conclude() {
	c.Fields = slices.SortedFunc(maps.Values(c.fields), func(a, b *fieldTally) int {
		return cmp.Or(cmp.Compare(b.Aggregates, a.Aggregates), cmp.Compare(a.Path, b.Path))
	})
	c.Parking = slices.SortedFunc(maps.Values(c.parking), func(a, b *parkTally) int {
		return cmp.Or(cmp.Compare(b.Aggregates, a.Aggregates), cmp.Compare(a.AggregateID, b.AggregateID))
	})
}

// comparisons pairs the projections of two sets by their names.
func comparisons(before, after []*projection.Projection) []*comparison {
	pairs := map[string][2]*projection.Projection{}
	for _, p := range before {
		pairs[p.Name()] = [2]*projection.Projection{p, nil}
	}
	for _, p := range after {
		pairs[p.Name()] = [2]*projection.Projection{pairs[p.Name()][0], p}
	}
	all := make([]*comparison, 0, len(pairs))
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		all = append(all, newComparison(pairs[name][0], pairs[name][1]))
	}
	return all
}
