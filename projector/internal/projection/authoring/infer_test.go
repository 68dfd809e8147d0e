package authoring_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/authoring"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

func TestInference(t *testing.T) {
	t.Parallel()
	var i authoring.Inference
	for _, payload := range []string{
		`{"sku":"a","quantity":2,"price":10,"note":"x","at":{"$date":"2026-01-01T00:00:00Z"},"lines":[{"n":1},{"n":2,"m":true}],"either":1,"null":"quoted","gone":null}`,
		`{"sku":"b","quantity":{"$numberLong":"3"},"price":10.5,"note":null,"at":{"$date":"2026-01-01T00:00:00Z"},"lines":[],"either":"x","id":{"$oid":"64b7f8a2c9e77a0001234567"}}`,
	} {
		i.Add(projectiontest.Event(1, "ItemAdded", payload))
	}
	many := make([]string, 200)
	for n := range many {
		many[n] = fmt.Sprintf(`"k%d":%d`, n, n)
	}
	for range 2 {
		i.Add(projectiontest.Event(1, "Counted", "{\"byKey\":{"+strings.Join(many, ",")+"}}"))
	}
	i.Add(projectiontest.Event(1, "Cancelled", ""))
	i.Add(projectiontest.Event(1, "Noted", ""))
	i.Add(projectiontest.Event(1, "Noted", `{"note":"x"}`))
	got, err := i.YAML()
	if err != nil {
		t.Fatal(err)
	}
	const want = `# Inferred from 7 events. Events that were not among them may have other fields and types.
events:
  # events seen: 1
  Cancelled:
    type: object
    properties: {}
  # events seen: 2
  Counted:
    type: object
    properties:
      byKey: {type: object}
    required: [byKey]
  # events seen: 2
  ItemAdded:
    type: object
    properties:
      at: {bsonType: date}
      either: {}
      gone: {}
      id: {bsonType: objectId}
      lines:
        type: array
        items:
          type: object
          properties:
            m: {type: boolean}
            n: {type: integer}
          required: [n]
      note: {type: [string, "null"]}
      "null": {type: string}
      price: {type: number}
      quantity: {type: integer}
      sku: {type: string}
    required: [at, either, lines, note, price, quantity, sku]
  # events seen: 2
  Noted:
    type: object
    properties:
      note: {type: string}
    required: []
`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if _, err := (&authoring.Inference{}).YAML(); err == nil {
		t.Error("an inference from nothing gave a section")
	}
}

// TestInferenceOfDeepEvents checks that the parser takes the section of events that nest
// deeper than a schema may.
func TestInferenceOfDeepEvents(t *testing.T) {
	t.Parallel()
	for _, around := range [][2]string{{`{"a":`, `}`}, {`[`, `]`}} {
		for depth := 28; depth < 36; depth++ {
			var i authoring.Inference
			i.Add(projectiontest.Event(1, "E", `{"a":`+strings.Repeat(around[0], depth)+"1"+strings.Repeat(around[1], depth)+`}`))
			section, err := i.YAML()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := projection.Parse("deep.yaml", append(section, "projections: [{name: p, collection: c, on: {E: {set: {a: payload.a}}}}]"...)); err != nil {
				t.Errorf("%d levels of %s: %v", depth, around[0], err)
			}
		}
	}
}

// TestInferredSchemaAcceptsItsEvents checks that the section that is inferred from events
// is valid, and that projections of every field of the events compile and run.
func TestInferredSchemaAcceptsItsEvents(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var i authoring.Inference
		events := projectiontest.DrawEvents(t)
		for _, ev := range events {
			i.Add(ev)
		}
		section, err := i.YAML()
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range events {
			text := fmt.Sprintf("%s\nprojections: [{name: p, collection: c, on: {%s: {set: {v: payload.v, w: payload.w, all: payload}}}}]", section, ev.EventType)
			projections, err := projection.Parse("inferred.yaml", []byte(text))
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if f := projections[0].Fold(nil, []*event.Event{ev}); f.Err != nil {
				t.Fatalf("%v\n%s", f.Err, text)
			}
		}
	})
}
