package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

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

// The reconciler keeps the messages of discarded aggregates too, because their markers are in
// the parked list.
func TestDeadLetterOfADiscardedAggregateStays(t *testing.T) {
	t.Parallel()
	e, s, _ := emptyState(t)
	e.Config.Fields = event.DefaultFields()
	body, err := bson.Marshal(bson.D{{Key: "aggregateId", Value: "x"}, {Key: "eventId", Value: 1}, {Key: "eventType", Value: "Came"}})
	if err != nil {
		t.Fatal(err)
	}
	queue := peeked{messages: []deadletter.Message{
		{Sequence: 1, Reason: "expression", ContentType: event.ContentTypeBSON, Body: body},
		{Sequence: 2, Reason: "by hand", ContentType: event.ContentTypeBSON, Body: body},
	}}
	parkIn := func(projection string) {
		t.Helper()
		if err := s.parked.Park(t.Context(), []model.Marker{{Unit: model.Unit{Projection: projection, AggregateID: "x"}, EventID: 1, Head: 1, Reason: "expression"}}); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(parkedIn, resubmit string, next ...string) {
		t.Helper()
		found, _, err := deadlettersFilter{Limit: 10}.choose(t.Context(), e, s, queue)
		if err != nil || len(found) != 2 {
			t.Fatalf("%+v, %v", found, err)
		}
		for i, d := range found {
			if d.parkedIn() != parkedIn || !strings.HasPrefix(d.Next, next[i]) {
				t.Errorf("parked in %q, next %q; want %q, %q", d.parkedIn(), d.Next, parkedIn, next[i])
			}
		}
		listed, err := json.Marshal(found[0])
		if err != nil || strings.Contains(parkedIn, "discarded") != strings.Contains(string(listed), `"discarded":["b"]`) {
			t.Errorf("the JSON is %s, %v", listed, err)
		}
		r := &resubmission{live: map[string]int64{"a": generation.First, "b": generation.First}}
		markers, discarded, _ := r.parked(found)
		if got := fmt.Sprintf("%d retried, %d left", len(markers), len(discarded)); got != resubmit {
			t.Errorf("parked in %q: deadletters resubmit: %s, want %s", parkedIn, got, resubmit)
		}
	}
	expect("", "0 retried, 0 left", "none: ", "deadletters resubmit or discard: ")
	parkIn("b")
	all, err := s.parked.List(t.Context(), park.Filter{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.parked.Discard(t.Context(), all, park.Discard{Who: "ada", Why: "accepted", At: time.Now()}); n != 1 || err != nil {
		t.Fatalf("%d discarded, %v", n, err)
	}
	expect("b (discarded)", "0 retried, 1 left", "deadletters discard, or parked retry --discarded: ", "deadletters discard, or parked retry --discarded and then deadletters resubmit: ")
	parkIn("a")
	expect("a, b (discarded)", "1 retried, 1 left", "parked retry and parked retry --discarded, or deadletters discard: ", "deadletters discard, or parked retry --discarded and then")
	// The markers of another pipeline keep no message of this one.
	other := generation.Create("another pipeline", generation.Declared{Name: "b", Definition: generation.Definition{Collection: "b"}}, generation.Found{}, generation.Author{At: time.Now()})
	if _, err := s.catalog.Write(t.Context(), nil, other); err != nil {
		t.Fatal(err)
	}
	expect("a", "1 retried, 0 left", "parked retry;", "deadletters resubmit or discard: ")
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
