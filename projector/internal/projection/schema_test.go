package projection_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

const declaredEvents = `
events:
  E:
    type: object
    properties:
      sku: {type: string, description: "what is sold"}
      quantity: {type: integer}
      price: {type: number}
      decimal: {bsonType: decimal}
      note: {type: [string, "null"]}
      at: {bsonType: date}
      id: {bsonType: objectId}
      any: {}
      either: {type: [string, integer]}
      open: {type: object, properties: {known: {type: string}}, additionalProperties: true}
      address: {properties: {city: {type: string}, geo: {properties: {lat: {bsonType: double}}}}}
      lines: {items: {properties: {sku: {type: string}, n: {type: integer}}}}
      tags: {type: array, items: {type: string}}
`

// TestDeclaredEvents checks what expressions can do with a declared payload, for every
// kind of number in the store.
func TestDeclaredEvents(t *testing.T) {
	t.Parallel()
	const payload = `{"sku":"a","quantity":2.0,"price":10,"decimal":{"$numberDecimal":"1.5"},"note":null,"at":{"$date":"2026-05-06T07:08:09Z"},
		"id":{"$oid":"64b7f8a2c9e77a0001234567"},"any":[1],"either":7,"open":{"unknown":1},"address":{"city":"X","geo":{"lat":1.5}},
		"lines":[{"sku":"b","n":1},{"sku":"c","n":2}],"tags":["t"]}`
	for expression, want := range map[string]string{
		"payload.quantity * payload.price":            `{"v":20.0}`,
		"payload.price + 1":                           `{"v":{"$numberLong":"11"}}`,
		"payload.quantity + 1":                        `{"v":3.0}`,
		"payload.quantity * payload.decimal":          `{"v":{"$numberDecimal":"3.0"}}`,
		"payload.note == null":                        `{"v":true}`,
		"payload.note":                                `{"v":null}`,
		"has(payload.note) && has(payload.sku)":       `{"v":true}`,
		"payload.?sku.orValue('none')":                `{"v":"a"}`,
		"payload.?address.?city.orValue('none')":      `{"v":"X"}`,
		"payload.address":                             `{"v":{"city":"X","geo":{"lat":1.5}}}`,
		"payload.address.geo.lat + 1":                 `{"v":2.5}`,
		"payload.lines.map(l, l.sku)":                 `{"v":["b","c"]}`,
		"payload.lines.filter(l, l.n > 1)[0].sku":     `{"v":"c"}`,
		"payload.at.getFullYear()":                    `{"v":{"$numberLong":"2026"}}`,
		"string(payload.id)":                          `{"v":"64b7f8a2c9e77a0001234567"}`,
		"payload.any[0] == payload.either - 6":        `{"v":true}`,
		"payload.open.unknown":                        `{"v":{"$numberInt":"1"}}`,
		"payload.tags[0] + payload.sku":               `{"v":"ta"}`,
		"event.payload.sku == payload.sku":            `{"v":true}`,
		"state.sku == payload.sku":                    `{"v":false}`,
		"{'sku': payload.sku, 'q': payload.quantity}": `{"v":{"q":2.0,"sku":"a"}}`,
	} {
		t.Run(expression, func(t *testing.T) {
			t.Parallel()
			p := projectiontest.One(t, declaredEvents+"projections: [{name: p, collection: c, on: {E: {set: {v: \""+expression+"\"}}}}]")
			f := p.Fold(nil, []*event.Event{projectiontest.Event(1, "E", payload)})
			if f.Err != nil {
				t.Fatal(f.Err)
			}
			if got := projectiontest.JSON(t, f.State()); got != projectiontest.JSON(t, testkit.FromJSON(want)) {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// TestDeclaredEventsShareASchema checks that a key of the section can name several event types,
// as a key of rules can.
func TestDeclaredEventsShareASchema(t *testing.T) {
	t.Parallel()
	const section = "events: {B | D: {properties: {sku: {type: string}}}%s}\nprojections: [{name: p, collection: c, on: {%s: {set: {v: payload.%s}}}}]"
	for name, test := range map[string]struct{ other, eventType, field, want string }{
		"of the first":  {"", "B", "skuu", "payload has no field skuu: did you mean sku?"},
		"of the second": {"", "D", "skuu", "payload has no field skuu: did you mean sku?"},
		"of both":       {"", "B | D", "skuu", "payload has no field skuu: did you mean sku?"},
		"right":         {"", "D", "sku", ""},
		"declared again": {
			", D: {type: object}", "D", "sku", "D: events: the event type is already declared at shared.yaml:1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := projection.Parse("shared.yaml", []byte(fmt.Sprintf(section, test.other, test.eventType, test.field)))
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestDeclaredNumbersCanHaveOtherTypes calls functions with declared numbers that are stored in
// another type. The result is that without a declaration.
func TestDeclaredNumbersCanHaveOtherTypes(t *testing.T) {
	t.Parallel()
	const events = `{E: {type: object, properties: {n: {type: integer}, d: {bsonType: decimal}}, required: [n, d]}}`
	for _, expression := range []string{
		"int(payload.n)", "uint(payload.n)", "double(payload.n)", "string(payload.n)", "decimal(payload.n)", "string(payload.d)",
		"math.abs(payload.n)", "math.sign(payload.n)", "math.sqrt(payload.n)", "math.round(payload.n, 0)", "math.round(payload.d, 0)", "math.divide(payload.n, payload.d, 2)",
		"math.greatest(payload.n, 1)", "math.least(payload.n, payload.d)", "[payload.n, 1].sort()", "[payload.n].sum()",
		"timestamp.plus(payload.n, 'days')", "timestamp + duration(payload.n, 'hours')", "payload.n + payload.d > payload.n * 2",
	} {
		var want string
		for _, declared := range []string{"{}", events} {
			p := projectiontest.One(t, fmt.Sprintf(`{events: %s, projections: [{name: p, collection: c, on: {E: {set: {v: %q}}}}]}`, declared, expression))
			f := p.Fold(nil, []*event.Event{projectiontest.Event(1, "E", `{"n": 2.0, "d": 1.5}`)})
			if got := projectiontest.JSON(t, f.State()); f.Err != nil || want != "" && got != want {
				t.Errorf("%s gives %s, not %s: %v", expression, got, want, f.Err)
			} else {
				want = got
			}
		}
	}
}

// TestEventsOfAnotherFile checks that a section events applies to all files of its
// folder, in any order.
func TestEventsOfAnotherFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, content := range map[string]string{
		"a.yaml": "projections: [{name: p, collection: c, on: {E: {set: {v: payload.skuu}}}}]",
		"b.yaml": declaredEvents,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := projection.Load(folder)
	if err == nil || !strings.Contains(err.Error(), "a.yaml:1:58: projection p: E: set v: payload has no field skuu: did you mean sku?") {
		t.Errorf("the error is %v", err)
	}
}
