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
		"int(payload.n)", "double(payload.n)", "string(payload.n)", "decimal(payload.n)", "string(payload.d)",
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

// TestDeclaredTypesHold folds events that contradict the section events.
func TestDeclaredTypesHold(t *testing.T) {
	t.Parallel()
	const yaml = `
events:
  Lent:
    type: object
    properties:
      dueOn: {bsonType: date}
      note: {type: [string, "null"]}
      copies: {type: array, items: {type: object, properties: {shelf: {type: integer}}}}
      address: {type: object, additionalProperties: true, properties: {city: {type: string}, zip: {type: string}}}
      unread: {type: string}
projections:
  - name: loans
    collection: loans
    on:
      Lent:
        - when: has(payload.note) && payload.note == 'gift'
          delete: true
        - set: {dueOn: payload.dueOn, shelves: "payload.?copies.orValue([]).map(c, c.shelf)", city: "payload.?address.?city"}
`
	p := projectiontest.One(t, yaml)
	stored, err := projection.Compile(p.Definition())
	if err != nil {
		t.Fatal(err)
	}
	for payload, want := range map[string]string{
		`{"dueOn": {"$date": 0}}`: "",
		`{"dueOn": {"$date": 0}, "note": null, "unread": 1, "address": {"city": "Ulm", "zip": 7}, "copies": [{"shelf": 1.5}]}`: "",
		`{"dueOn": "2026-06-01"}`:                                           "payload.dueOn is string, and the section events declares it as date",
		`{"dueOn": null}`:                                                   "payload.dueOn is null, and",
		`{"dueOn": "2026-06-01", "note": "gift"}`:                           "payload.dueOn is string, and",
		`{"dueOn": {"$date": 0}, "note": 1}`:                                "payload.note is int, and the section events declares it as null or string",
		`{"dueOn": {"$date": 0}, "address": {"city": ["Ulm"]}}`:             "payload.address.city is array, and",
		`{"dueOn": {"$date": 0}, "address": "Ulm"}`:                         "payload.address is string, and",
		`{"dueOn": {"$date": 0}, "copies": [{"shelf": 1}, {"shelf": "2"}]}`: "payload.copies[].shelf is string, and the section events declares it as number (of any type)",
	} {
		for _, p := range []*projection.Projection{p, stored} {
			f := p.Fold(nil, []*event.Event{projectiontest.Event(1, "Lent", payload)})
			if want == "" && f.Err != nil || want != "" && (f.Err == nil || f.Err.Reason != projection.ReasonSchema || !strings.Contains(f.Err.Error(), want)) {
				t.Errorf("%s: got %v, want %q", payload, f.Err, want)
			}
		}
	}
	if other := projectiontest.One(t, strings.ReplaceAll(yaml, "unread: {type: string}", "unread: {type: integer}")); other.Hash() != p.Hash() {
		t.Error("the type of a field that no rule reads changes the definition")
	}
}

// TestTypesHoldAfterUpcasts declares the payload that an upcast makes.
func TestTypesHoldAfterUpcasts(t *testing.T) {
	t.Parallel()
	p := projectiontest.One(t, `
events: {Lent: {properties: {dueOn: {bsonType: date}}}}
upcasts:
  Lent: {when: type(payload.dueOn) == string, payload: "{'dueOn': timestamp(payload.dueOn)}"}
projections: [{name: loans, collection: loans, on: {Lent: {set: {dueOn: payload.dueOn}}}}]`)
	for payload, want := range map[string]string{
		`{"dueOn": "2026-06-01T00:00:00Z"}`: "", `{"dueOn": {"$date": 0}}`: "", `{"dueOn": 1}`: "payload.dueOn is int, and",
	} {
		f := p.Fold(nil, []*event.Event{projectiontest.Event(1, "Lent", payload)})
		if want == "" && f.Err != nil || want != "" && (f.Err == nil || !strings.Contains(f.Err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", payload, f.Err, want)
		}
	}
}
