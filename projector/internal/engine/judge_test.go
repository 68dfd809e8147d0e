package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// judge counts good events, and gives the same judgement of each bad one.
type judge struct {
	good      map[string]int
	bad       []string
	judgement model.Judgement
}

func (j *judge) Good(projection, eventType string) { j.good[projection+" "+eventType]++ }

func (j *judge) Bad(failure *projection.Error) model.Judgement {
	j.bad = append(j.bad, fmt.Sprintf("%s %s %s %d %s", failure.Projection, failure.EventType, failure.AggregateID, failure.EventID, failure.Reason))
	return j.judgement
}

// TestFailureOfAWrongRuleParksUntilTheRuleIsCorrected checks that an event which the judge
// does not call wrong parks its aggregate so that it resumes by itself, that its message is
// completed, and that nothing else waits. While the judge has not decided, only the event
// waits.
func TestFailureOfAWrongRuleParksUntilTheRuleIsCorrected(t *testing.T) {
	t.Parallel()
	j := &judge{good: map[string]int{}}
	b := newBench(t, twoProjections, func(o *engine.Options) { o.Judge = j })
	evs := append(events(t, "one", "1 Add", "2 Bad", "3 Add"), events(t, "two", "1 Add", "2 Other")...)
	for _, attempt := range []model.Attempt{model.Hold, model.Repair, model.GiveUp} {
		results, err := b.Process(t.Context(), evs, attempt)
		if failure := (*projection.Error)(nil); !errors.As(err, &failure) || failure.EventID != 2 || verdicts(results) != "done/retry/retry/done/done" {
			t.Errorf("%s, %v", verdicts(results), err)
		}
	}
	if len(b.parking.parked) != 0 {
		t.Errorf("parked %v", b.parking.parked)
	}
	j.judgement = model.RuleWrong
	b.process(t, evs, model.Hold, "done/done/done/done/done")
	b.expectParked(t, "counts", "one", projection.ReasonRule, 2, 3)
	b.expect(t, "counts", "one", 1, `{"ids":[1],"n":1}`)
	b.expect(t, "things", "one", 3, `{"last":3}`)
	if want := slices.Repeat([]string{"counts Bad one 2 expression"}, 4); !slices.Equal(j.bad, want) {
		t.Errorf("judged %v", j.bad)
	}
	// An event type that a projection does not handle does not prove its rules right.
	if fmt.Sprint(j.good) != "map[counts Add:2 things Add:3]" {
		t.Errorf("good events: %v", j.good)
	}
	// The resumer asks again.
	b.history.events = evs[:3]
	j.judgement = model.Undecided
	b.resume(t, suspended(3), 1, projection.ReasonRule)
	j.judgement = model.EventWrong
	b.resume(t, suspended(3), 1, projection.ReasonExpression)
	b.expectParked(t, "counts", "one", projection.ReasonExpression, 2, 3)
}

// TestFailureOfAReplacedDefinitionResumes checks that a definition which is being replaced
// parks no aggregate until an operator acts, and that the judge is not asked. If the new
// definition is given up, the aggregate is parked as usual.
func TestFailureOfAReplacedDefinitionResumes(t *testing.T) {
	t.Parallel()
	evs := append(events(t, "one", "1 Add", "2 Bad", "3 Add"), events(t, "two", "1 Add")...)
	j := &judge{good: map[string]int{}, judgement: model.EventWrong}
	wrong := engine.Target{Projection: declared(t, `Add: {inc: {n: 1}}, Bad: {set: {x: payload.missing}}, Gone: {delete: true}`), Replaced: true}
	b := newBench(t, twoProjections, func(o *engine.Options) { o.Judge, o.Targets = j, []engine.Target{wrong} })
	b.process(t, evs, model.Hold, "done/done/done/done")
	b.expectParked(t, "counts", "one", projection.ReasonRule, 2, 3)
	if len(j.bad) != 0 {
		t.Errorf("judged %v", j.bad)
	}
	wrong.Replaced = false
	if err := b.Set([]engine.Target{wrong}); err != nil {
		t.Fatal(err)
	}
	b.history.events = evs[:3]
	b.resume(t, suspended(3), 1, projection.ReasonExpression)
	b.expectParked(t, "counts", "one", projection.ReasonExpression, 2, 3)
}
