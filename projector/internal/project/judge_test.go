package project_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/penstock-cdc/penstock/projector/internal/project"
)

// judge counts good events. It allows parking only if lenient is set.
type judge struct {
	good    map[string]int
	bad     []string
	lenient bool
}

func (j *judge) Good(projection, eventType string) { j.good[projection+" "+eventType]++ }

func (j *judge) Bad(failure *project.Error) bool {
	j.bad = append(j.bad, fmt.Sprintf("%s %s %s %d %s", failure.Projection, failure.EventType, failure.AggregateID, failure.EventID, failure.Reason))
	return j.lenient
}

func TestNothingIsParkedWithoutTheJudge(t *testing.T) {
	t.Parallel()
	j := &judge{good: map[string]int{}}
	b := newBench(t, twoProjections, func(o *project.Options) { o.Judge = j })
	evs := append(events(t, "one", "1 Add", "2 Bad", "3 Add"), events(t, "two", "1 Add", "2 Other")...)
	for _, gaps := range []project.Gaps{project.Hold, project.Repair, project.Park} {
		results, err := b.Process(t.Context(), evs, gaps)
		if failure := (*project.Error)(nil); !errors.As(err, &failure) || failure.EventID != 2 {
			t.Errorf("the error is %v", err)
		}
		if got := verdicts(results); got != "done/pending/pending/done/done" {
			t.Errorf("got %s", got)
		}
	}
	if len(b.parking.parked) != 0 {
		t.Errorf("parked %v", b.parking.parked)
	}
	b.expect(t, "counts", "one", 1, `{"ids":[1],"n":1}`)
	b.expect(t, "things", "one", 3, `{"last":3}`)
	if want := slices.Repeat([]string{"counts Bad one 2 expression"}, 3); !slices.Equal(j.bad, want) {
		t.Errorf("judged %v", j.bad)
	}
	// An event type that a projection does not handle does not prove its rules right.
	if fmt.Sprint(j.good) != "map[counts Add:2 things Add:3]" {
		t.Errorf("good events: %v", j.good)
	}
	j.lenient = true
	b.process(t, evs, project.Hold, "done/poison/done/done/done")
	b.expectParked(t, "counts", "one", project.ReasonExpression, 2, 3)
}

// TestFailureOfAReplacedDefinitionWaitsForTheOther checks that a definition which is
// being replaced parks no aggregate: the events stay on the topic, the judge is not
// asked, and the new definition applies them. If the new one is given up, the aggregate
// is parked as usual.
func TestFailureOfAReplacedDefinitionWaitsForTheOther(t *testing.T) {
	t.Parallel()
	evs := append(events(t, "one", "1 Add", "2 Bad", "3 Add"), events(t, "two", "1 Add")...)
	for name, corrected := range map[string]bool{"another is live": true, "the other is given up": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := &judge{good: map[string]int{}, lenient: true}
			wrong := project.Target{Projection: declared(t, `Add: {inc: {n: 1}}, Bad: {set: {x: payload.missing}}`), Replaced: true}
			b := newBench(t, twoProjections, func(o *project.Options) { o.Judge, o.Targets = j, []project.Target{wrong} })
			for range 2 {
				results, err := b.Process(t.Context(), evs, project.Park)
				if failure := (*project.Error)(nil); !errors.As(err, &failure) || failure.EventID != 2 || verdicts(results) != "done/pending/pending/done" {
					t.Errorf("%s, %v", verdicts(results), err)
				}
			}
			if len(b.parking.parked) != 0 || len(j.bad) != 0 {
				t.Errorf("parked %v, judged %v", b.parking.parked, j.bad)
			}
			next, want := wrong, "done/poison/done/done"
			next.Replaced = false
			if corrected {
				next = project.Target{Projection: declared(t, `Add: {inc: {n: 1}}, Bad: {inc: {n: 1}}`)}
				want = "done/done/done/done"
			}
			if err := b.Set([]project.Target{next}); err != nil {
				t.Fatal(err)
			}
			b.process(t, evs, project.Park, want)
			if (len(b.parking.parked) == 0) != corrected {
				t.Errorf("parked %v", b.parking.parked)
			}
		})
	}
}
