package projection_test

import (
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// TestOperators checks the effect of each word of the vocabulary on each kind of value.
func TestOperators(t *testing.T) {
	t.Parallel()
	checkStates(t, []stateTest{
		{"set without a document", `{set: {a: "1"}}`, "", `{}`, `{"a":1}`},
		{"set keeps other fields", `{set: {a: "'x'"}}`, `{"b":2,"a":1}`, `{}`, `{"b":2,"a":"x"}`},
		{"set nested makes documents", `{set: {a.b.c: "true"}}`, "", `{}`, `{"a":{"b":{"c":true}}}`},
		{"set nested keeps neighbours", `{set: {a.b: "2"}}`, `{"a":{"x":1,"b":1}}`, `{}`, `{"a":{"x":1,"b":2}}`},
		{"set two of one document", `{set: {a.b: "2", a.c: "3"}}`, `{"a":{"x":1}}`, `{}`, `{"a":{"x":1,"b":2,"c":3}}`},
		{"set through a text", `{set: {a.b: "2"}}`, `{"a":"text"}`, `{}`, "error: set a.b: a is string: no document"},
		{"set through null", `{set: {a.b: "2"}}`, `{"a":null}`, `{}`, "error: a is null: no document"},
		{"set through an array", `{set: {a.0: "2"}}`, `{"a":[1]}`, `{}`, "error: a is array: no document"},
		{"set an absent optional", `{set: {a: "payload.?x", b: "payload.?y"}}`, `{"a":1}`, `{"y":5}`, `{"a":1,"b":5}`},
		{"set only absent optionals", `{set: {a: "payload.?x"}}`, "", `{}`, "nil"},
		{"set null", `{set: {a: "null"}}`, "", `{}`, `{"a":null}`},
		{"set a map, by its keys' order", `{set: {a: "{'z': 1, 'a': [1, 2.5]}"}}`, "", `{}`, `{"a":{"a":[1,2.5],"z":1}}`},
		{"set a document as it is", `{set: {a: "payload.d"}}`, "", `{"d":{"z":1,"a":{"$numberLong":"5"}}}`, `{"a":{"z":1,"a":5}}`},
		{"set with optional entries", `{set: {a: "{?'x': payload.?x, ?'y': payload.?y}"}}`, "", `{"y":1}`, `{"a":{"y":1}}`},
		{"set a duration", `{set: {a: "payload.x ? duration('1s') : dyn(1)"}}`, "", `{"x":true}`, "error: a duration cannot be stored as BSON: store a number of a unit"},
		{"set a type", `{set: {a: "[type(1)]"}}`, "", `{}`, "error: type cannot be stored"},
		{"set keys that are no strings", `{set: {a: "{1: 2}"}}`, "", `{}`, "error: map key 1 is int"},
		{"unset", `{unset: [a, x.y, z.q]}`, `{"a":1,"b":2,"x":{"y":1,"z":2},"z":3}`, `{}`, `{"b":2,"z":3,"x":{"z":2}}`},
		{"unset absent", `{unset: a}`, `{"b":2}`, `{}`, `{"b":2}`},
		{"unset without a document", `{unset: a}`, "", `{}`, "nil"},
		{"inc from nothing", `{inc: {n: payload.q}}`, "", `{"q":5}`, `{"n":5}`},
		{"inc int32 gives int64", `{inc: {n: "2"}}`, `{"n":{"$numberInt":"5"}}`, `{}`, `{"n":7}`},
		{"inc by a double", `{inc: {n: "0.5"}}`, `{"n":5}`, `{}`, `{"n":5.5}`},
		{"inc a double", `{inc: {n: "1"}}`, `{"n":0.5}`, `{}`, `{"n":1.5}`},
		{"inc from nothing by a decimal", `{inc: {n: payload.q}}`, "", `{"q":{"$numberDecimal":"1.10"}}`, `{"n":{"$numberDecimal":"1.10"}}`},
		{"inc a decimal by an int", `{inc: {n: "2"}}`, `{"n":{"$numberDecimal":"0.10"}}`, `{}`, `{"n":{"$numberDecimal":"2.10"}}`},
		{"inc an int by a decimal", `{inc: {n: payload.q}}`, `{"n":5}`, `{"q":{"$numberDecimal":"0.10"}}`, `{"n":{"$numberDecimal":"5.10"}}`},
		{"inc a decimal by a double", `{inc: {n: "0.1"}}`, `{"n":{"$numberDecimal":"0.2"}}`, `{}`, `{"n":{"$numberDecimal":"0.3"}}`},
		{"inc a decimal rounds to 34 digits", `{inc: {n: payload.q}}`, `{"n":{"$numberDecimal":"1000000000000000000000000000000000"}}`, `{"q":{"$numberDecimal":"0.5"}}`, `{"n":{"$numberDecimal":"1000000000000000000000000000000000"}}`},
		{"inc a decimal overflows", `{inc: {n: payload.q}}`, `{"n":{"$numberDecimal":"9.999999999999999999999999999999999E+6144"}}`, `{"q":{"$numberDecimal":"9E+6144"}}`, "error: inc n: the result exceeds a Decimal128"},
		{"inc a decimal NaN", `{inc: {n: "1"}}`, `{"n":{"$numberDecimal":"NaN"}}`, `{}`, `{"n":{"$numberDecimal":"NaN"}}`},
		{"inc a decimal infinity", `{inc: {n: "1"}}`, `{"n":{"$numberDecimal":"-Infinity"}}`, `{}`, `{"n":{"$numberDecimal":"-Infinity"}}`},
		{"inc nested", `{inc: {a.n: "1"}}`, "", `{}`, `{"a":{"n":1}}`},
		{"inc a text", `{inc: {n: "1"}}`, `{"n":"5"}`, `{}`, "error: inc n: the field is string, not a number"},
		{"inc null", `{inc: {n: "1"}}`, `{"n":null}`, `{}`, "error: the field is null"},
		{"inc by a text", `{inc: {n: payload.q}}`, "", `{"q":"5"}`, "error: the value is string"},
		{"inc overflows", `{inc: {n: "1"}}`, `{"n":{"$numberLong":"9223372036854775807"}}`, `{}`, "error: exceeds a 64-bit integer"},
		{"inc underflows", `{inc: {n: "-1"}}`, `{"n":{"$numberLong":"-9223372036854775808"}}`, `{}`, "error: exceeds a 64-bit integer"},
		{"push makes an array", `{push: {a: payload}}`, "", `{"x":1}`, `{"a":[{"x":1}]}`},
		{"push appends", `{push: {a: "3"}}`, `{"a":[1,2]}`, `{}`, `{"a":[1,2,3]}`},
		{"push a list as one element", `{push: {a: "[3, 4]"}}`, `{"a":[1]}`, `{}`, `{"a":[1,[3,4]]}`},
		{"push nested", `{push: {x.a: "3"}}`, `{"x":{"a":[1]}}`, `{}`, `{"x":{"a":[1,3]}}`},
		{"push to a text", `{push: {a: "3"}}`, `{"a":"b"}`, `{}`, "error: push a: the field is string, not an array"},
		{"push to null", `{push: {a: "3"}}`, `{"a":null}`, `{}`, "error: the field is null, not an array"},
		{"pull every equal", `{pull: {a: "1"}}`, `{"a":[1,2,1.0,"1",{"$numberLong":"1"}]}`, `{}`, `{"a":[2,"1"]}`},
		{"pull documents in any order of fields", `{pull: {a: "{'x': 1, 'y': 2}"}}`, `{"a":[{"y":2,"x":1},{"x":1},3]}`, `{}`, `{"a":[{"x":1},3]}`},
		{"pull from nothing", `{pull: {a: "1"}}`, "", `{}`, "nil"},
		{"pull from an absent field", `{pull: {a: "1"}}`, `{"b":1}`, `{}`, `{"b":1}`},
		{"pull from a text", `{pull: {a: "1"}}`, `{"a":"b"}`, `{}`, "error: not an array"},
		{"addToSet", `{addToSet: {a: "2"}}`, `{"a":[1]}`, `{}`, `{"a":[1,2]}`},
		{"addToSet equal", `{addToSet: {a: "1"}}`, `{"a":[1.0]}`, `{}`, `{"a":[1.0]}`},
		{"addToSet makes an array", `{addToSet: {a: "1"}}`, "", `{}`, `{"a":[1]}`},
		{"addToSet to a text", `{addToSet: {a: "1"}}`, `{"a":"b"}`, `{}`, "error: not an array"},
		{"min less", `{min: {a: "1"}}`, `{"a":2}`, `{}`, `{"a":1}`},
		{"min greater", `{min: {a: "3"}}`, `{"a":2}`, `{}`, `{"a":2}`},
		{"min absent", `{min: {a: "3"}}`, "", `{}`, `{"a":3}`},
		{"max across number types", `{max: {a: "2.5"}}`, `{"a":2}`, `{}`, `{"a":2.5}`},
		{"max beyond a double's digits", `{max: {a: "9007199254740993"}}`, `{"a":9007199254740992.0}`, `{}`, `{"a":9007199254740993}`},
		{"max of a decimal and an int", `{max: {a: payload.q}}`, `{"a":2}`, `{"q":{"$numberDecimal":"2.01"}}`, `{"a":{"$numberDecimal":"2.01"}}`},
		{"min of a decimal and a double", `{min: {a: payload.q}}`, `{"a":0.25}`, `{"q":{"$numberDecimal":"0.26"}}`, `{"a":0.25}`},
		{"max of decimals of one value", `{max: {a: payload.q}}`, `{"a":{"$numberDecimal":"1.1"}}`, `{"q":{"$numberDecimal":"1.10"}}`, `{"a":{"$numberDecimal":"1.1"}}`},
		{"min of decimals far apart", `{min: {a: payload.q}}`, `{"a":{"$numberDecimal":"-1E+6000"}}`, `{"q":{"$numberDecimal":"1E-6000"}}`, `{"a":{"$numberDecimal":"-1E+6000"}}`},
		{"min of a decimal NaN", `{min: {a: payload.q}}`, `{"a":-5}`, `{"q":{"$numberDecimal":"NaN"}}`, `{"a":{"$numberDecimal":"NaN"}}`},
		{"max of an absent decimal", `{max: {a: payload.q}}`, "", `{"q":{"$numberDecimal":"1.1"}}`, `{"a":{"$numberDecimal":"1.1"}}`},
		{"pull equal decimals", `{pull: {a: payload.q}}`, `{"a":[{"$numberDecimal":"1.10"},2,1.1]}`, `{"q":{"$numberDecimal":"1.1"}}`, `{"a":[2,1.1]}`},
		{"when reads a field of an absent document", `{when: state.status != 'shipped', set: {a: "1"}}`, "", `{}`, `{"a":1}`},
		{"max of texts", `{max: {a: "'b'"}}`, `{"a":"a"}`, `{}`, `{"a":"b"}`},
		{"max of dates", `{max: {a: "timestamp('2026-01-01T00:00:00Z')"}}`, `{"a":{"$date":"2025-01-01T00:00:00Z"}}`, `{}`, `{"a":{"$date":"2026-01-01T00:00:00Z"}}`},
		{"max of a text and a number", `{max: {a: "1"}}`, `{"a":"a"}`, `{}`, "error: long and string have no order"},
		{"max of a document", `{max: {a: payload}}`, "", `{}`, "error: object has no order"},
		{"when false", `{when: payload.x > 1, set: {a: "1"}}`, `{"b":1}`, `{"x":1}`, `{"b":1}`},
		{"when true", `{when: payload.x > 1, set: {a: "1"}}`, `{"b":1}`, `{"x":2}`, `{"b":1,"a":1}`},
		{"when no bool", `{when: payload.x, set: {a: "1"}}`, `{"b":1}`, `{"x":2}`, "error: when: payload.x: the result is not a bool"},
		{"when an empty optional", `{when: "dyn(payload.?x)", set: {a: "1"}}`, `{"b":1}`, `{}`, "error: when: dyn(payload.?x): the result is not a bool"},
		{"delete", `{delete: true}`, `{"b":1}`, `{}`, "nil"},
		{"delete when", `{when: state.b == 1, delete: true}`, `{"b":2}`, `{}`, `{"b":2}`},
		{"delete nothing", `{delete: true}`, "", `{}`, "nil"},
		{"all or nothing", `{set: {a: "1"}, push: {l: "1"}, inc: {t: "1"}}`, `{"l":[0],"t":"text"}`, `{}`, "error: inc t"},
	})
}

// TestWriteOfEachSequenceOfChanges checks the write for each sequence of creating, changing
// and deleting a document.
func TestWriteOfEachSequenceOfChanges(t *testing.T) {
	t.Parallel()
	p := projectiontest.One(t, `
projections:
  - name: p
    collection: c
    aggregateType: Thing
    on:
      Set: {set: {a: payload.a}}
      Push: {push: {list: payload.a}}
      Replace: {set: {list: "state.?list.orValue([]) + [payload.a]"}}
      Pull: {pull: {list: payload.a}}
      Unset: {unset: [a, b]}
      Delete: {delete: true}
`)
	if !p.Deletes() || p.Name() != "p" || p.Collection() != "c" || len(p.Sources()) != 1 || p.Sources()[0].AggregateType != "Thing" {
		t.Errorf("declared as %+v", p)
	}
	tests := []struct {
		name, before, events string
		kind                 model.Kind
		written              string
	}{
		{"no event concerns it", "", "Other,Other", model.MoveWatermark, ""},
		{"no event concerns its document", `{"a":1}`, "Other", model.Update, "nil"},
		{"created", "", "Set,Push,Push", model.Create, `{"a":1,"list":[2,3]}`},
		{"changed", `{"a":5,"b":1}`, "Set", model.Update, `{"$set":{"a":1}}`},
		{"changed to the same", `{"a":{"$numberLong":"3"},"b":1}`, "Set,Set,Set", model.Update, `nil`},
		{"appended", `{"list":[9]}`, "Push,Other,Push", model.Update, `{"$push":{"list":{"$each":[1,3]}}}`},
		{"appended to nothing", `{"b":1}`, "Push,Push", model.Update, `{"$set":{"list":[1,2]}}`},
		{"replaced by more", `{"list":[{"$numberLong":"9"},{"n":1}]}`, "Replace,Replace", model.Update, `{"$push":{"list":{"$each":[1,2]}}}`},
		{"appended and pulled again", `{"list":[9]}`, "Push,Pull", model.Update, `{"$push":{"list":{"$each":[1]}}}`},
		{"shortened", `{"list":[2,9]}`, "Push,Pull", model.Update, `{"$set":{"list":[9,1]}}`},
		{"several operators", `{"a":1,"b":1,"list":[]}`, "Unset,Push", model.Update, `{"$unset":{"a":"","b":""},"$push":{"list":{"$each":[2]}}}`},
		{"deleted", `{"a":1}`, "Set,Delete", model.Delete, ""},
		{"deleted and made again", `{"a":1,"b":2,"list":[7]}`, "Delete,Push", model.Update, `{"$set":{"list":[2]},"$unset":{"a":"","b":""}}`},
		{"deleted and made the same again", `{"a":{"$numberLong":"2"}}`, "Delete,Set", model.Update, `nil`},
		{"made and deleted", "", "Set,Delete", model.Erase, ""},
		{"deleted an absent document", "", "Delete", model.MoveWatermark, ""},
		{"made, deleted and made", "", "Set,Delete,Push", model.Create, `{"list":[3]}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var before bson.Raw
			if test.before != "" {
				before = testkit.FromJSON(strings.Replace(test.before, "{", `{"_id":"a-1","lastEventId":{"$numberLong":"0"},`, 1))
			}
			var events []*event.Event
			for i, kind := range strings.Split(test.events, ",") {
				payload := `{"a":{"$numberLong":"` + string(rune('1'+i)) + `"}}`
				if kind == "Pull" {
					payload = `{"a":2}`
				}
				events = append(events, projectiontest.Event(int64(i+1), kind, payload))
			}
			f := p.Fold(before, events)
			if f.Err != nil || f.Folded != len(events) {
				t.Fatalf("%+v", f)
			}
			got := f.Update
			if f.Kind == model.Create {
				got = f.Document
			}
			if f.Kind != test.kind || test.written != "" && projectiontest.JSON(t, got) != projectiontest.JSON(t, expectedRaw(test.written)) {
				t.Errorf("got %d %s, want %d %s", f.Kind, projectiontest.JSON(t, got), test.kind, test.written)
			}
		})
	}
}

func expectedRaw(text string) bson.Raw {
	if text == "nil" {
		return nil
	}
	return testkit.FromJSON(text)
}

// TestFailureKeepsThePrefix checks that a fold stops right before the failing event,
// without any of its changes in the result.
func TestFailureKeepsThePrefix(t *testing.T) {
	t.Parallel()
	p := projectiontest.One(t, `
projections:
  - name: p
    collection: c
    on:
      Good: {push: {list: eventId}, inc: {n: 1}}
      Bad: {push: {list: eventId}, inc: {n: "'x' == payload.x ? dyn(1) : dyn('no')"}}
`)
	events := []*event.Event{
		projectiontest.Event(1, "Good", `{}`), projectiontest.Event(2, "Good", `{}`), projectiontest.Event(3, "Bad", `{"x":"y"}`), projectiontest.Event(4, "Good", `{}`),
	}
	f := p.Fold(testkit.FromJSON(`{"_id":"a-1","lastEventId":0,"list":[0]}`), events)
	if f.Folded != 2 || len(f.Applied) != 2 || projectiontest.JSON(t, f.State()) != `{"list":[0,1,2],"n":2}` {
		t.Errorf("%+v, state %s", f, projectiontest.JSON(t, f.State()))
	}
	if f.Err == nil || f.Err.EventID != 3 || f.Err.EventType != "Bad" || f.Err.AggregateID != "a-1" || f.Err.Projection != "p" || f.Err.Reason != projection.ReasonOperation {
		t.Errorf("error %#v", f.Err)
	}
	if got := projectiontest.JSON(t, f.Update); got != `{"$set":{"n":2},"$push":{"list":{"$each":[1,2]}}}` {
		t.Errorf("update %s", got)
	}
}

// TestOtherTypesOfAggregate checks that events of other aggregate types are skipped.
func TestOtherTypesOfAggregate(t *testing.T) {
	t.Parallel()
	p := projectiontest.One(t, `projections: [{name: p, collection: c, aggregateType: Other, on: {E: {inc: {n: 1}}}}]`)
	mine := projectiontest.Event(2, "E", "")
	mine.AggregateType = "Other"
	f := p.Fold(nil, []*event.Event{projectiontest.Event(1, "E", ""), mine})
	if f.Err != nil || projectiontest.JSON(t, f.State()) != `{"n":1}` || f.Applied[0] || !f.Applied[1] {
		t.Errorf("%+v, state %s", f, projectiontest.JSON(t, f.State()))
	}
	if p.Concerns(projectiontest.Event(1, "E", "")) || !p.Concerns(mine) {
		t.Error("Concerns is wrong")
	}
}
