package operate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/deadletter"
	"github.com/penstock-cdc/penstock/projector/internal/generation"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/park"
)

// peeked is a queue of which messages are only read.
type peeked struct {
	deadletter.Queue
	messages []deadletter.Message
}

func (q peeked) Peek(_ context.Context, from int64, limit int) ([]deadletter.Message, error) {
	var found []deadletter.Message
	for _, m := range q.messages {
		if m.Sequence >= from && len(found) < limit {
			found = append(found, m)
		}
	}
	return found, nil
}

func TestFilterWithoutADeadLetterIsReported(t *testing.T) {
	t.Parallel()
	one := []deadletter.Message{{Sequence: 7, Reason: "expression", Body: []byte("no event")}}
	for name, test := range map[string]struct {
		filter   deadlettersFilter
		messages []deadletter.Message
		want     int
		err      error
		note     string
	}{
		"none matches":    {deadlettersFilter{Reason: "missing", Limit: 10}, one, 0, errNoDeadLetterMatches, ""},
		"one matches":     {deadlettersFilter{Reason: "expression", Limit: 10}, one, 1, nil, ""},
		"the queue empty": {deadlettersFilter{Reason: "missing", Limit: 10}, nil, 0, nil, "no dead letters\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, s, out := emptyState(t)
			e.Config.Fields = event.DefaultFields()
			found, err := test.filter.chooseSome(t.Context(), e, s, peeked{messages: test.messages})
			if len(found) != test.want || !errors.Is(err, test.err) || out.String() != test.note {
				t.Errorf("%+v, %v, %q", found, err, out)
			}
		})
	}
}

// The reconciler does not wait for retired projections, so a dead letter does not either.
func TestNextOfADeadLetterIgnoresRetiredProjections(t *testing.T) {
	t.Parallel()
	entries := map[string]*generation.Entry{"old": {RetiredAt: new(time.Time)}, "visits": {}}
	for want, markers := range map[string][]park.Listed{
		"none: ":        {{Projection: "old"}},
		"parked retry;": {{Projection: "old"}, {Projection: "visits"}},
	} {
		d := deadLetter{Reason: Healable()[0]}
		if d.judge(markers, entries); !strings.HasPrefix(d.Next, want) {
			t.Errorf("parked in %v: %q, want %q", d.Parked, d.Next, want)
		}
	}
}

func TestListRefusesAnUnknownProjection(t *testing.T) {
	t.Parallel()
	e, s, out := emptyState(t)
	visitsEntry(t, s.State, e.Config.Pipeline().String())
	list := func(projection string) error {
		return (&parkedListCommand{parkedFilter: parkedFilter{Projection: projection, Limit: 10}}).runOn(t.Context(), e, s)
	}
	if err := list("visit"); err == nil || !strings.Contains(err.Error(), `there is no projection "visit": the catalog has visits`) {
		t.Errorf("a misspelt projection: %v\n%s", err, out)
	}
	marker := model.Marker{Unit: model.Unit{Projection: "former", AggregateID: "a"}, EventID: 1, Head: 1, Reason: "expression"}
	if err := s.parked.Park(t.Context(), []model.Marker{marker}); err != nil {
		t.Fatal(err)
	}
	if err := (&parkedListCommand{parkedFilter: parkedFilter{Projection: "former", Discarded: true, Limit: 10}}).runOn(t.Context(), e, s); err != nil {
		t.Errorf("a projection with markers alone: %v", err)
	}
	if err := list("visits"); err != nil || !strings.Contains(out.String(), "no parked aggregates") {
		t.Errorf("a projection without parked aggregates: %v\n%s", err, out)
	}
}
