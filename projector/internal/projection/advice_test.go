package projection_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// TestCheckAdvises checks which valid declarations are reported as probable mistakes, and
// which are not.
func TestCheckAdvises(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ expression, says string }{
		"filtered":            {"payload.lines.filter(l, l.quantity > 1).size()", ""},
		"one loop":            {"payload.lines.exists(l, l.sku == 'tea')", ""},
		"loop in a loop":      {"payload.lines.filter(a, payload.lines.exists(b, a == b))", "there is a loop, or a search by in, within a loop"},
		"long text":           {"payload.sku.matches('^[a-z]+$') ? payload.sku.split(',') : []", ""},
		"comparison of texts": {"payload.sku == payload.other", ""},

		"texts in a loop":         {"payload.lines.filter(l, l.sku != payload.sku)", ""},
		"optional in a loop":      {"payload.?lines.orValue([]).filter(l, l.sku != payload.sku)", ""},
		"two optionals in a loop": {"payload.?lines.or(payload.?items).orValue([]).map(l, l.sku)", ""},
		"optional index":          {"payload[?'lines'].orValue([]).exists(l, l == payload.sku)", ""},
		"optional and bind":       {"cel.bind(a, payload.?lines.orValue([]), a.filter(l, l.sku in ['tea', 'milk']))", ""},
		"one of two arrays":       {"(has(payload.lines) ? payload.lines : []).map(l, l.sku)", ""},
		"joined arrays":           {"(payload.lines + [payload.line]).filter(l, l.sku != payload.sku)", ""},
		"loop over a loop":        {"payload.lines.filter(l, l.quantity > 1).map(l, l.sku)", ""},
		"words":                   {"payload.text.split(' ').filter(w, w != payload.sku)", ""},
		"sorted":                  {"payload.lines.map(l, l.sku).sort().filter(s, s != payload.sku)", ""},
		"keys of a map":           {"payload.prices.transformMap(k, v, v * 2)", ""},
		"optional loop in a loop": {"payload.?lines.orValue([]).filter(a, payload.?lines.orValue([]).exists(b, a == b))", "there is a loop, or a search by in, within a loop"},
		"search in a loop":        {"payload.lines.filter(l, l.sku in payload.skus)", "there is a loop, or a search by in, within a loop"},
		"bound search in a loop":  {"cel.bind(a, payload.skus, payload.lines.filter(l, l.sku in a))", "there is a loop, or a search by in, within a loop"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			advice := adviceOn(t, "projections:\n  - name: p\n    collection: c\n    on:\n      Added:\n        set: {a: \""+test.expression+"\"}\n")
			if test.says == "" && len(advice) == 0 {
				return
			}
			if test.says == "" || len(advice) != 1 || !strings.Contains(advice[0].String(), "p.yaml:6:18: projection p: Added: set a: "+test.says) {
				t.Errorf("says %v", advice)
			}
		})
	}
}

// TestCheckAdvisesOnFieldsThatNoRuleSets checks rules, paths and computed fields. A field can be
// set by a rule that comes later, and each source of a view has fields of its own.
func TestCheckAdvisesOnFieldsThatNoRuleSets(t *testing.T) {
	t.Parallel()
	advice := adviceOn(t, `
projections:
  - name: p
    collection: c
    compute:
      due: state.?balanc.orValue(0) - state.paid
    on:
      Added:
        when: state.status == null && state.staus != 'open'
        set: {"lines[sku=state.sku].n": "state.later"}
        inc: {balance: payload.n, paid: payload.n}
      Later:
        set: {later: "state['lines'].filter(state, state.staus)", status: "'open'"}
views:
  - name: v
    collection: v
    from:
      - {aggregateType: A, key: "'k'", as: a, on: {Added: {set: {sku: payload.sku}}}}
      - {aggregateType: B, key: "'k'", as: b, on: {Added: {set: {total: state.sku}}}}
`)
	want := []string{
		"projection p: compute due: no rule sets state.balanc (did you mean balance?), so it is always null",
		"projection p: Added: when: no rule sets state.staus (did you mean status?), so it is always null",
		"projection p: Added: set lines[sku=state.sku].n: no rule sets state.sku, so it is always null",
		"projection v: Added: set total: no rule sets state.sku, so it is always null",
	}
	for i := range max(len(want), len(advice)) {
		if i >= len(want) || i >= len(advice) || !strings.Contains(advice[i].String(), want[i]) {
			t.Fatalf("says %v", advice)
		}
	}
}

func TestCheckAdvisesOnEventTypes(t *testing.T) {
	t.Parallel()
	text := `
events:
  ItemAddedToOrderEvent: {type: object}
  OrderPlacedEvent: {type: object}
projections:
  - name: p
    collection: c
    on:
      ItemAddedToOrdrEvent: {delete: true}
      OrderPlacedEvent: {delete: true}
      OrderShippedEvent: {delete: true}
      OrderPaidEvent: {delete: true}
`
	advice := adviceOn(t, text)
	if len(advice) != 1 || !strings.Contains(advice[0].String(), "p.yaml:9:7: projection p: ItemAddedToOrdrEvent: the section events does not have ItemAddedToOrdrEvent: did you mean ItemAddedToOrderEvent?\n    ItemAddedToOrdrEvent: {delete: true}\n    ^") {
		t.Errorf("says %v", advice)
	}
}

func adviceOn(t *testing.T, text string) []projection.Problem {
	t.Helper()
	file := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	projections, advice, err := projection.Check(file)
	if err != nil || len(projections) == 0 {
		t.Fatal(err)
	}
	// Advice does not prevent a projector from starting.
	if _, err := projection.Load(file); err != nil {
		t.Fatal(err)
	}
	return advice
}

// An author who has decided that a construct is right says so on its line, with a reason.
func TestAcceptedAdviceIsSilent(t *testing.T) {
	t.Parallel()
	for comment, silent := range map[string]bool{"": false, " # accepted: kept for the next version": true, " # accepted:": false, " # a remark": false} {
		advice := adviceOn(t, "projections:\n  - name: p\n    collection: c\n    on:\n      Added:\n        set:\n          a: state.other"+comment+"\n")
		if (len(advice) == 0) != silent {
			t.Errorf("%q: %v", comment, advice)
		}
	}
}

// A field that an event may lack parks the aggregate of the first event without it.
func TestCheckAdvisesOnFieldsThatAreNotRequired(t *testing.T) {
	t.Parallel()
	const schema = "events:\n  Added: {type: object, required: [sku], properties: {sku: {type: string}, note: {type: string}}}\n"
	for name, test := range map[string]struct {
		schema, when, expression string
		advised                  bool
	}{
		"required":         {schema, "", "payload.sku", false},
		"not required":     {schema, "", "payload.note", true},
		"tested":           {schema, "", "has(payload.note) ? payload.note : ''", false},
		"tested in when":   {schema, "has(payload.note)", "payload.note", false},
		"optional":         {schema, "", "payload.?note.orValue('')", false},
		"nothing required": {strings.Replace(schema, "required: [sku], ", "", 1), "", "payload.note", false},
		"no schema":        {"", "", "payload.note", false},
	} {
		when := ""
		if test.when != "" {
			when = "        when: " + test.when + "\n"
		}
		advice := adviceOn(t, test.schema+"projections:\n  - name: p\n    collection: c\n    on:\n      Added:\n"+when+"        set: {a: \""+test.expression+"\"}\n")
		if (len(advice) > 0) != test.advised {
			t.Errorf("%s: %v", name, advice)
		}
	}
}

// A key with | but without the spaces is the name of one event type, which no event has. So is
// probably a key with spaces around it.
func TestCheckAdvisesOnSeparatorsWithoutSpaces(t *testing.T) {
	t.Parallel()
	for key, says := range map[string]string{
		"Placed | Paid":   "",
		"Placed|Paid":     `"Placed|Paid" is the name of one event type`,
		"Placed |Paid":    `"Placed |Paid" is the name of one event type`,
		"Placed  |  Paid": `"Placed " is the name of one event type`,
		" Placed":         `" Placed" is an event type with a space at its start or end`,
	} {
		for _, file := range []string{
			"projections: [{name: p, collection: c, on: {\"" + key + "\": {delete: true}}}]",
			"events: {\"" + key + "\": {}}\nprojections: [{name: p, collection: c, on: {Other: {delete: true}}}]",
		} {
			advice := adviceOn(t, file)
			if (len(advice) == 0) != (says == "") || says != "" && !strings.Contains(advice[0].String(), says) {
				t.Errorf("%s: %v", file, advice)
			}
		}
	}
}
