package projection_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// inCode makes a projection in Go.
func inCode(tb rapid.TB, d projection.Declaration) *projection.Projection {
	tb.Helper()
	p, err := projection.New(d)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// TestFuncChangesNoEvent checks that a function that changes its event does not move the
// watermark: later events are folded, and other projections see the event as it is.
func TestFuncChangesNoEvent(t *testing.T) {
	t.Parallel()
	p := inCode(t, projection.Declaration{Name: "go", Collection: "g", Apply: func(state projection.State, ev *event.Event) (projection.State, error) {
		ev.EventID, ev.AggregateID, ev.Payload = 77, "other", bson.RawValue{}
		n, _ := state.Lookup("n").AsInt64OK()
		return bson.Marshal(bson.D{{Key: "n", Value: n + 1}})
	}})
	a := p.Begin(nil)
	for id := range int64(2) {
		ev := projectiontest.Event(id+1, "E", `{"a":1}`)
		before := *ev
		if err := a.Add([]*event.Event{ev}); err != nil {
			t.Fatal(err)
		}
		if a.Last() != id+1 || ev.Keys != before.Keys || ev.Payload.Type != before.Payload.Type {
			t.Errorf("after event %d: the watermark is %d, and the event %+v", id+1, a.Last(), ev.Keys)
		}
	}
	if got := projectiontest.JSON(t, a.State()); got != `{"n":2}` {
		t.Errorf("the state is %s", got)
	}
}

// TestFunc checks the contract of projections in Go.
func TestFunc(t *testing.T) {
	t.Parallel()
	apply := func(state projection.State, ev *event.Event) (projection.State, error) {
		switch ev.EventType {
		case "Keep":
			return state, nil
		case "Fail":
			return nil, errors.New("no")
		case "Panic":
			panic("oh")
		case "Delete":
			return nil, nil
		case "Dots":
			return testkit.FromJSON(`{"a.b":1}`), nil
		case "Malformed":
			return projection.State{9, 0, 0, 0, 1}, nil
		}
		n, _ := state.Lookup("n").AsInt64OK()
		return bson.Marshal(bson.D{{Key: "_id", Value: "mine"}, {Key: "n", Value: n + 1}})
	}
	forever := inCode(t, projection.Declaration{Name: "go", Collection: "g", AggregateType: "Thing", Apply: apply})
	deletable := inCode(t, projection.Declaration{Name: "go", Collection: "g", Deletes: true, Apply: apply})
	tests := []struct {
		name, before, events string
		p                    *projection.Projection
		kind                 model.Kind
		written, failure     string
	}{
		{"created", "", "Up,Keep,Up", forever, model.Create, `{"n":2}`, ""},
		{"changed", `{"n":{"$numberLong":"1"}}`, "Up", forever, model.Update, `{"$set":{"n":2}}`, ""},
		{"kept", `{"n":1}`, "Keep", forever, model.Update, "nil", ""},
		{"no change", "", "Keep", forever, model.MoveWatermark, "nil", ""},
		{"failed", `{"n":1}`, "Up,Fail,Up", forever, model.Update, `{"$set":{"n":2}}`, "no"},
		{"failed at once", `{"n":1}`, "Fail", forever, 0, "nil", "no"},
		{"panicked", `{"n":1}`, "Panic", forever, 0, "nil", "panic: oh"},
		{"deleted without permission", `{"n":1}`, "Delete", forever, 0, "nil", "does not declare Deletes"},
		{"unusual field names", "", "Dots", forever, 0, "nil", `field "a.b" is not a valid field name`},
		{"malformed", "", "Malformed", forever, 0, "nil", "not a BSON document"},
		{"deleted", `{"n":1}`, "Delete", deletable, model.Delete, "nil", ""},
		{"deleted and made", `{"n":1,"x":1}`, "Delete,Up", deletable, model.Update, `{"$set":{"n":1},"$unset":{"x":""}}`, ""},
		{"made and deleted", "", "Up,Delete", deletable, model.Erase, "nil", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var before bson.Raw
			if test.before != "" {
				before = testkit.FromJSON(strings.Replace(test.before, "{", `{"_id":"a-1","lastEventId":0,`, 1))
			}
			var events []*event.Event
			for i, kind := range strings.Split(test.events, ",") {
				events = append(events, projectiontest.Event(int64(i+1), kind, ""))
			}
			f := test.p.Fold(before, events)
			if test.failure == "" && f.Err != nil || test.failure != "" && (f.Err == nil || !strings.Contains(f.Err.Error(), test.failure) || f.Err.Reason != projection.ReasonFunction) {
				t.Fatalf("error %v, want %q", f.Err, test.failure)
			}
			got := f.Update
			if f.Kind == model.Create {
				got = f.Document
			}
			if f.Kind != test.kind || projectiontest.JSON(t, got) != projectiontest.JSON(t, expectedRaw(test.written)) {
				t.Errorf("got %d %s, want %d %s", f.Kind, projectiontest.JSON(t, got), test.kind, test.written)
			}
		})
	}
	if _, err := projection.New(projection.Declaration{Name: "a b", Collection: "watermarks"}); err == nil {
		t.Error("a wrong declaration was taken")
	}
}

// TestFuncThatDoesNotReturnFails checks that the event of a function that waits forever, or that
// ends its goroutine, is parked like any other event that fails.
func TestFuncThatDoesNotReturnFails(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{"Hang": "has not returned for 30s", "Goexit": "has ended its goroutine"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				defer close(release)
				p := inCode(t, projection.Declaration{Name: "go", Collection: "g", Apply: func(state projection.State, ev *event.Event) (projection.State, error) {
					if ev.EventType == "Goexit" {
						runtime.Goexit()
					}
					<-release
					return state, nil
				}})
				f := p.Fold(nil, []*event.Event{projectiontest.Event(1, kind, "")})
				if f.Folded != 0 || f.Err == nil || f.Err.Reason != projection.ReasonFunction || !strings.Contains(f.Err.Error(), want) {
					t.Errorf("folded %d events, error %v", f.Folded, f.Err)
				}
			})
		})
	}
}

// TestNilProjectionIsAProblem checks that a program that ignores the error of NewProjection gets
// an error instead of a panic.
func TestNilProjectionIsAProblem(t *testing.T) {
	t.Parallel()
	if err := projection.CheckSet([]*projection.Projection{nil}); err == nil || !strings.Contains(err.Error(), "is nil") {
		t.Errorf("got %v", err)
	}
}

// TestTyped checks that a function made by Typed has the same contract.
func TestTyped(t *testing.T) {
	t.Parallel()
	type counter struct {
		N    int64  `bson:"n"`
		Last string `bson:"last"`
	}
	p := inCode(t, projection.Declaration{Name: "p", Collection: "c", Deletes: true,
		Apply: projection.Typed(func(c *counter, ev *event.Event) (*counter, error) {
			switch {
			case ev.EventType == "Delete":
				return nil, nil
			case ev.EventType == "Fail":
				return nil, errors.New("no")
			case c == nil:
				return &counter{N: 1}, nil
			}
			c.N++
			c.Last = ev.EventType
			return c, nil
		})})
	evs := []*event.Event{projectiontest.Event(1, "Up", ""), projectiontest.Event(2, "Up", ""), projectiontest.Event(3, "Delete", ""), projectiontest.Event(4, "Fail", "")}
	if f := p.Fold(nil, evs[:2]); f.Err != nil || projectiontest.JSON(t, f.State()) != `{"n":2,"last":"Up"}` {
		t.Errorf("%s, %v", projectiontest.JSON(t, f.State()), f.Err)
	}
	if f := p.Fold(testkit.FromJSON(`{"_id":"a-1","lastEventId":1,"n":1,"last":""}`), evs[1:]); f.Kind != model.Delete || f.Err == nil || f.Err.EventID != 4 {
		t.Errorf("%+v", f)
	}
	if f := p.Fold(testkit.FromJSON(`{"_id":"a-1","lastEventId":1,"n":"text"}`), evs[:1]); f.Err == nil || f.Folded != 0 {
		t.Errorf("%+v", f)
	}
}

// MongoDB refuses the whole command of such a document, as if the command were wrong. So
// without the check, the aggregate and its neighbours in the command are retried.
func TestTooDeepStateOfAFuncIsRejected(t *testing.T) {
	t.Parallel()
	nested := func(levels int) any {
		var value any = "x"
		for range levels {
			value = bson.D{{Key: "a", Value: value}}
		}
		return value
	}
	for levels, want := range map[int]projection.Reason{90: "", 91: projection.ReasonRejected, 300: projection.ReasonRejected} {
		p := inCode(t, projection.Declaration{Name: "go", Collection: "g", Apply: func(projection.State, *event.Event) (projection.State, error) {
			return bson.Marshal(bson.D{{Key: "n", Value: nested(levels)}})
		}})
		f := p.Fold(nil, []*event.Event{projectiontest.Event(1, "E", "{}")})
		switch {
		case want == "" && f.Err != nil, want != "" && (f.Err == nil || f.Err.Reason != want || !strings.Contains(f.Err.Error(), "nests deeper than 90 levels")):
			t.Errorf("a state with %d levels: %v, want the reason %q", levels, f.Err, want)
		}
	}
}
