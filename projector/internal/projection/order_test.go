package projection_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// mapLoops are expressions whose results depend on the order of a map.
var mapLoops = []string{
	"{'d': 1, 'b': 2, 'a': 3, 'c': 4, 'e': 5}.map(k, k)",
	"{'d': payload.n, 'b': 2, 'a': 3, ?'c': payload.?n, 'e': 5}.map(k, k)",
	"{'d': 1, 'b': 2, 'a': 3, 'c': 4}.filter(k, k != 'a')",
	"{'d': 1, 'b': 2, 'a': 3, 'c': 4}.transformList(k, v, k + string(v))",
	"{'d': 1, 'b': 2, 'a': 3, 'c': 4}.transformList(k, v, v > 1, [k, v])",
	"{'x': {'d': 1, 'b': 2, 'a': 3, 'c': 4}}.x.map(k, k)",
	"[{'d': 1, 'b': 2, 'a': 3, 'c': 4}].map(m, m.map(k, k))",
	"cel.bind(m, {'d': 1, 'b': 2, 'a': 3, 'c': 4}, m.map(k, k))",
	"(payload.n > 0 ? {'d': 1, 'b': 2, 'a': 3, 'c': 4} : {}).map(k, k)",
	"optional.of({'d': 1, 'b': 2, 'a': 3, 'c': 4}).orValue({}).map(k, k)",
	"optional.of({'d': 1, 'b': 2, 'a': 3, 'c': 4}).optMap(m, m.map(k, k)).orValue([])",
	"payload.m.transformMap(k, v, v).map(k, k)",
	"payload.m.transformMap(k, v, {'z': v, 'a': v}).transformList(k, v, [k] + v.map(x, x))",
	"payload.list.transformMapEntry(i, v, {v: i}).map(k, k)",
	"payload.list.transformMapEntry(i, v, {v: i})",
	"{1: 'a', 'one': 'b', 2: 'c', true: 'd', 1.5: 'e', false: 'f'}.map(k, string(k))",
	"{'d': 1, 'b': 2, 'a': 3, 'c': 4}.map(k, k).join(',')",
	"'%s'.format([{'d': 1, 'b': 2, 'a': 3, 'c': 4}])",
	"{'d': 1, 'b': 2, 'a': 3, 'c': 4}.map(k, {k: 1, 'z': 2})",
	"{'d': 'x', 'b': 'y', 'a': 'x', 'c': 'y'}.map(k, k).sortBy(k, size(k))",
	"{'d': 1, 'b': 2, 'a': 3, 'c': 4}.map(k, [k]).flatten().reverse().slice(0, 2)",
	"{'d': 1, 'b': 2, 'a': 3, 'c': 4}.map(k, k).first()",
	"{'d': 1, 'b': 2, 'a': 3, 'c': 4}.map(k, k).distinct().last()",
	"payload.m.map(k, k)", "state.?m.orValue({}).map(k, k)", "state.map(k, k)", "event.map(k, k)", "metadata.map(k, k)",
	"payload", "event", "state", "payload.m",
}

// TestFoldsAreDeterministic folds the same events many times. Half of the folds take the
// events one by one, so that the document is stored and loaded in between.
func TestFoldsAreDeterministic(t *testing.T) {
	t.Parallel()
	expressions := slices.Clone(mapLoops)
	for _, a := range attacks {
		expressions = append(expressions, a.expression)
	}
	small := smallPayload()
	events := make([]*event.Event, 3)
	for i := range events {
		events[i] = projectiontest.Event(int64(i+1), "E", "")
		events[i].Payload = small
	}
	for _, expression := range expressions {
		// In a bubble no time passes, so no fold reaches the limit of the time.
		synctest.Test(t, func(t *testing.T) {
			p := projectiontest.On(t, fmt.Sprintf("{set: {result: %q, m: payload.m, n: payload.n}}", expression))
			var first bson.Raw
			var failed string
			for i := range 30 {
				f := p.Fold(nil, events)
				got, err := f.State(), fmt.Sprint(f.Err)
				if i == 0 {
					first, failed = got, err
				}
				if !bytes.Equal(first, got) || failed != err {
					t.Errorf("%s gives\n%s %s\nand\n%s %s", expression, projectiontest.JSON(t, first), failed, projectiontest.JSON(t, got), err)
					break
				}
			}
			if slices.Contains(mapLoops, expression) && failed != "<nil>" {
				t.Errorf("%s: %s", expression, failed)
			}
		})
	}
}

// TestMapsAreVisitedInTheOrderOfTheirKeys checks the order that the documentation names.
func TestMapsAreVisitedInTheOrderOfTheirKeys(t *testing.T) {
	t.Parallel()
	resultsOf(t, `{"m": {"z": 1, "a": 2, "m": 3}}`, map[string]string{
		mapLoops[0]: `["a","b","c","d","e"]`,
		"{1: 0, 'one': 0, 2: 0, true: 0, 1.5: 0, false: 0}.map(k, string(k))": `["one","false","true","1","1.5","2"]`,
		"payload.m.map(k, k)":                      `["z","a","m"]`,
		"payload.m.transformMap(k, v, v)":          `{"a":2,"m":3,"z":1}`,
		"payload.m.transformMap(k, v, v).map(k,k)": `["a","m","z"]`,
	})
}

// TestZoneOfTheProcessIsRefused checks that no result depends on the time zone of the
// process: two projectors can have different ones.
func TestZoneOfTheProcessIsRefused(t *testing.T) {
	t.Parallel()
	const refused = "error: name a zone, such as Europe/Berlin"
	resultsOf(t, `{"zone": "Local"}`, map[string]string{
		"timestamp.getHours('Local')":                              refused,
		"timestamp('2026-01-02T03:04:05Z').getDayOfMonth('Local')": refused,
		"timestamp.getMinutes(payload.zone)":                       refused,
		"[timestamp].map(x, x.getFullYear('localtime'))":           refused,
	})
}

func TestMapWithKeysThatPrintAlikeIsNotFormatted(t *testing.T) {
	t.Parallel()
	for expression, alike := range map[string]bool{
		"'%s'.format([{1: payload.a, '1': 'b'}])":           true,
		"'%s'.format([{1: 'a', '1': 'b'}])":                 true,
		"'%s'.format([[{'m': {true: 1, 'true': 2}}]])":      true,
		"'%d %s'.format([1, {payload.n: 1, '7': payload}])": true,
		"'%s'.format([{1: 'a', '2': 'b'}])":                 false,
		"'%s'.format([payload])":                            false,
	} {
		p := projectiontest.On(t, fmt.Sprintf("{set: {r: %q}}", expression))
		f := p.Fold(nil, []*event.Event{projectiontest.Event(1, "E", `{"a": "x", "n": 7}`)})
		if (f.Err != nil) != alike || alike && !strings.Contains(f.Err.Error(), "two keys have the same text") {
			t.Errorf("%s gives %s, %v", expression, projectiontest.JSON(t, f.State()), f.Err)
		}
	}
}

// smallPayload has the fields of the payload of attacks, with small values.
func smallPayload() bson.RawValue {
	numbers, texts := bson.A{3, 1, 2}, bson.A{"c", "a", "b"}
	document := bson.D{{Key: "z", Value: 1}, {Key: "a", Value: 2}, {Key: "field29999", Value: 3}}
	reversed := slices.Clone(document)
	slices.Reverse(reversed)
	return testkit.Value(bson.D{
		{Key: "n", Value: 1}, {Key: "m", Value: bson.D{{Key: "z", Value: 1}, {Key: "a", Value: 2}, {Key: "m", Value: 3}}}, {Key: "list", Value: texts},
		{Key: "text", Value: "a text"}, {Key: "huge", Value: "1"}, {Key: "hugeToo", Value: "2"}, {Key: "blank", Value: " "}, {Key: "digits", Value: "12"},
		{Key: "numbers", Value: numbers}, {Key: "texts", Value: texts}, {Key: "similar", Value: texts}, {Key: "names", Value: bson.A{"z", "a"}},
		{Key: "documents", Value: bson.A{document, reversed}}, {Key: "nested", Value: bson.A{numbers, bson.A{numbers}}},
		{Key: "format", Value: strings.Repeat("%.3f", 3)}, {Key: "precise", Value: "%.2f"}, {Key: "pattern", Value: "(a?)"}, {Key: "manyClasses", Value: `\pL`},
		{Key: "references", Value: `\1`}, {Key: "zone", Value: "Europe/Berlin"}, {Key: "decimals", Value: bson.A{bson.NewDecimal128(0x3040000000000000, 3), 1, 2.5}}, {Key: "document", Value: document}, {Key: "reversed", Value: reversed},
	})
}
