package projection_test

import (
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

func dec(text string) string { return `{"$numberDecimal":"` + text + `"}` }

func decimal(tb rapid.TB, text string) bson.Decimal128 {
	tb.Helper()
	d, err := bson.ParseDecimal128(text)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func TestDecimalsInExpressions(t *testing.T) {
	t.Parallel()
	results(t, map[string]string{
		"payload.price / 2":                                                      dec("6.25"),
		"payload.price / 3":                                                      dec("4.166666666666666666666666666666667"),
		"payload.n / payload.price":                                              dec("0.24"),
		"1.0 / decimal('3')":                                                     dec("0.3333333333333333333333333333333333"),
		"decimal('10.00') / 4":                                                   dec("2.50"),
		"decimal('1E+3') / 10":                                                   dec("1E+2"),
		"payload.zero / 5":                                                       dec("0.00"),
		"payload.price / payload.zero":                                           "error: division by zero",
		"payload.decNaN / 2":                                                     dec("NaN"),
		"payload.decInf / 2":                                                     dec("-Infinity"),
		"2 / payload.decInf":                                                     dec("-0"),
		"payload.most / 0.1":                                                     "error: the result exceeds a Decimal128",
		"payload.tiny / 2":                                                       dec("0E-6176"),
		"payload.tiny / 2 + payload.tiny":                                        dec("1E-6176"),
		"payload.most + payload.tiny":                                            dec("9.999999999999999999999999999999999E+6144"),
		"payload.most * 10":                                                      "error: the result exceeds a Decimal128",
		"payload.price % 2":                                                      "error: % does not take Decimal128 and int: it takes ints",
		"math.round(payload.price)":                                              dec("13"),
		"math.round(-payload.price)":                                             dec("-13"),
		"math.floor(-payload.price)":                                             dec("-13"),
		"math.ceil(-payload.price)":                                              dec("-12"),
		"math.trunc(-payload.price)":                                             dec("-12"),
		"math.abs(-payload.price)":                                               dec("12.50"),
		"math.abs(payload.decInf)":                                               dec("Infinity"),
		"math.sign(-payload.price)":                                              "-1",
		"math.sign(payload.decNaN)":                                              "error: NaN values cannot be ordered",
		"math.isNaN(payload.decNaN)":                                             "true",
		"math.isInf(payload.decInf)":                                             "true",
		"math.isFinite(payload.price)":                                           "true",
		"math.round(payload.decNaN)":                                             dec("NaN"),
		"math.round(payload.tiny)":                                               dec("0"),
		"math.ceil(payload.tiny)":                                                dec("1"),
		"math.round(payload.most)":                                               dec("9.999999999999999999999999999999999E+6144"),
		"math.round(payload.price, 1)":                                           dec("12.5"),
		"math.round(payload.price, 4)":                                           dec("12.5000"),
		"math.round(payload.price, -1)":                                          dec("10"),
		"math.round(decimal('2.345'), 2)":                                        dec("2.35"),
		"math.round(decimal('2.345'), 2, 'half-even')":                           dec("2.34"),
		"math.round(decimal('-2.341'), 2, 'up')":                                 dec("-2.35"),
		"math.round(decimal('-2.349'), 2, 'down')":                               dec("-2.34"),
		"math.round(decimal('-2.349'), 2, 'ceiling')":                            dec("-2.34"),
		"math.round(decimal('-2.341'), 2, 'floor')":                              dec("-2.35"),
		"math.round(decimal('9.999'), 2)":                                        dec("10.00"),
		"math.round(payload.tiny, 2, 'up')":                                      dec("0.01"),
		"math.round(payload.third, 33)":                                          dec("0.333333333333333333333333333333333"),
		"math.round(payload.most, 2)":                                            "error: more than the 34 digits of a Decimal128",
		"math.round(decimal(1), 40)":                                             "error: more than the 34 digits of a Decimal128",
		"math.round(payload.price, payload.huge)":                                "error: 9223372036854775807 places are not between -400 and 400",
		"math.round(payload.price, 2, payload.s)":                                `error: there is no rounding "text": name one of half-up`,
		"math.round(payload.decInf, 2)":                                          dec("-Infinity"),
		"math.round(2.675, 2)":                                                   "2.68",
		"math.round(payload.d, 0)":                                               "3.0",
		"math.round(payload.d, 0, 'half-even')":                                  "2.0",
		"math.round(1e300, 2)":                                                   "1E+300",
		"math.isNaN(math.round(payload.nan, 2))":                                 "true",
		"math.round(-1250, -2)":                                                  "-1300",
		"math.round(payload.n, 2)":                                               "3",
		"math.round(payload.huge, -1)":                                           "error: the result exceeds a 64-bit integer",
		"math.round(payload.huge, -400)":                                         "0",
		"math.round(payload.s, 2)":                                               "error: math.round does not take string and int",
		"math.divide(10, 3, 2)":                                                  dec("3.33"),
		"math.divide(10, -3, 2, 'floor')":                                        dec("-3.34"),
		"math.divide(payload.price, 4, 2, 'half-even')":                          dec("3.12"),
		"math.divide(1, payload.third, 0)":                                       dec("3"),
		"math.divide(2000, 3, -2)":                                               dec("700"),
		"math.divide(payload.tiny, 3, 2, 'up')":                                  dec("0.01"),
		"math.divide(payload.zero, 3, 2)":                                        dec("0.00"),
		"math.divide(payload.most, 3, 2)":                                        "error: more than the 34 digits",
		"math.divide(1, 0.0, 2)":                                                 "error: division by zero",
		"math.divide(payload.decNaN, 2, 2)":                                      "error: NaN and infinities cannot be divided",
		"math.divide(1, payload.decInf, 2)":                                      "error: NaN and infinities cannot be divided",
		"math.divide(payload.s, 2, 2)":                                           "error: math.divide does not take string and int",
		"math.greatest(payload.price, 2)":                                        dec("12.50"),
		"math.greatest(2, payload.price, 20.5)":                                  "20.5",
		"math.least([payload.price, payload.n, 7.0])":                            "3",
		"math.least(payload.price)":                                              dec("12.50"),
		"math.greatest(payload.price, 12.5)":                                     dec("12.50"),
		"math.greatest(payload.price, payload.nan)":                              "error: NaN values cannot be ordered",
		"math.greatest(payload.price, payload.s)":                                "error: math.greatest does not take Decimal128 and string",
		"math.greatest(payload.n, 7)":                                            "7",
		"[payload.price, 1, 2.5, payload.tiny].sort()":                           "[" + dec("1E-6176") + ",1,2.5," + dec("12.50") + "]",
		"[2.5, 1].sort()":                                                        "[1,2.5]",
		"[payload.price, payload.nan].sort()":                                    "error: NaN values cannot be ordered",
		"[payload.price, payload.s].sort()":                                      "error: the list cannot be sorted",
		"[1.0, payload.nan].sort()":                                              "error: NaN values cannot be ordered",
		"[true, false].sort()":                                                   "[false,true]",
		"[dyn('a'), 1].sort()":                                                   "error: the list cannot be sorted",
		"payload.lines.sortBy(l, l.price).map(l, l.n)":                           "[3,2,5]",
		"payload.lines.sortBy(l, l.price / 10 > decimal(0) ? 1 : 2).map(l, l.n)": "[2,3,5]",
		"decimal('1.50')":                                                        dec("1.50"),
		"decimal('-1.5e3')":                                                      dec("-1.5E+3"),
		"decimal(payload.n)":                                                     dec("3"),
		"decimal(0.1)":                                                           dec("0.1"),
		"decimal(payload.price)":                                                 dec("12.50"),
		"decimal(payload.nan)":                                                   dec("NaN"),
		"decimal(payload.s)":                                                     `error: "text" is not a decimal number: write decimal('12.50')`,
		"decimal('' + '1e99999')":                                                "error: the result exceeds a Decimal128",
		"decimal('' + '1e-99999')":                                               dec("0E-6176"),
		"decimal('' + '1e999999')":                                               "error: is not a decimal number",
		"decimal('12345678901234567890123456789012345')":                         dec("1.234567890123456789012345678901234E+34"),
		"decimal(payload.doc)":                                                   "error: decimal does not take map: it takes a number or a text",
		"int(payload.price)":                                                     "12",
		"int(-payload.price)":                                                    "-12",
		"int(payload.tiny)":                                                      "0",
		"int(payload.zero)":                                                      "0",
		"int(decimal('9223372036854775807'))":                                    "9223372036854775807",
		"int(decimal('9223372036854775808'))":                                    "error: 9223372036854775808 is not in the range of an int",
		"int(payload.most)":                                                      "error: is not in the range of an int",
		"int(payload.decNaN)":                                                    "error: NaN is not in the range of an int",
		"string(math.round(payload.price, 2))":                                   `"12.50"`,
		"string(math.round(decimal('1E+3'), 2))":                                 `"1000.00"`,
		"'%.2f'.format([payload.price])":                                         "error: format writes a Decimal128 only as a text",
		"payload.price == decimal('12.5')":                                       "true",
		"payload.lines.map(l, l.price) == [decimal('1.1'), decimal('0.1'), decimal('10')]": "true",
	})
}

// TestSortKeepsTheOrderOfEqualKeys has enough elements for an algorithm that does not.
func TestSortKeepsTheOrderOfEqualKeys(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"i % 2", "i % 2 == 1", "string(i % 2)", "double(i % 2)", "payload.at + duration(i % 2, 'hours')"} {
		results(t, map[string]string{
			"lists.range(20).sortBy(i, " + key + ")": "[0,2,4,6,8,10,12,14,16,18,1,3,5,7,9,11,13,15,17,19]",
		})
	}
}

func TestSumsAndReductions(t *testing.T) {
	t.Parallel()
	results(t, map[string]string{
		"payload.list.sum()":                                "6",
		"payload.lines.sum(l, l.n)":                         "10",
		"payload.lines.sum(l, l.n * l.price)":               dec("52.50"),
		"[0.1, 0.2, 0.3].sum()":                             "0.6",
		"[1e308, 1e308, -1e308].sum()":                      "1E+308",
		"[1e308, 1e308].sum() > 1e308":                      "true",
		"[1, 2, 0.5].sum()":                                 "3.5",
		"[].sum()":                                          "0",
		"[payload.huge, 1, -1].sum()":                       "9223372036854775807",
		"[payload.huge, 1].sum()":                           "error: the result exceeds a 64-bit integer",
		"[payload.most, payload.tiny, 1].sum()":             dec("9.999999999999999999999999999999999E+6144"),
		"[payload.most, payload.most].sum()":                "error: the result exceeds a Decimal128",
		"[payload.price, payload.decNaN].sum()":             dec("NaN"),
		"[payload.price, payload.decInf, 1.0].sum()":        dec("-Infinity"),
		"[payload.price, null].sum()":                       "error: sum adds numbers, and element 1 of the list is null: leave such elements out",
		"payload.s.sum()":                                   "error: sum does not take string: write list.sum()",
		"state.absent.sum()":                                "error: sum does not take null: give a field",
		"payload.list.reduce(total, 0, e, total + e)":       "6",
		"payload.list.reduce(total, 0, e, total + e / 2.0)": "3.0",
		"payload.list.reduce(most, null, e, most == null || e > most ? e : most)":      "3",
		"payload.list.reduce(l, [], e, [e] + l)":                                       "[3,2,1]",
		"payload.list.reduce(l, [], e, l + [e, e])":                                    "[1,1,2,2,3,3]",
		"payload.list.reduce(l, payload.list, e, l + [e]).size()":                      "6",
		"payload.list.reduce(l, [[]], e, l + [l[size(l) - 1] + [e]])":                  "[[],[1],[1,2],[1,2,3]]",
		"payload.list.reduce(l, [0], e, e == 2 ? l + l : l + [e])":                     "[0,1,0,1,3]",
		"payload.list.reduce(p, {'a': [], 'b': []}, e, {'a': p.b, 'b': p.a + [e]})":    `{"a":[2],"b":[1,3]}`,
		"payload.lines.reduce(m, {}, l, m.merge({l.sku: m[?l.sku].orValue(0) + l.n}))": `{"a":3,"b":7}`,
		"payload.doc.reduce(text, '', k, v, text + k)":                                 `"ba"`,
		"{'b': 1, 'a': 2}.reduce(text, '', k, text + k)":                               `"ab"`,
		"payload.list.reduce(t, '', i, e, t + string(i) + string(e))":                  `"011223"`,
		"payload.list.reduce(t, 0, e, payload.list.reduce(t, t, e, t + e))":            "18",
		"payload.list.reduce(t, 0, e, t + e) + payload.list.reduce(t, 0, e, t + e)":    "12",
		"payload.list.reduce(t, 0, e, payload.absent)":                                 "error: no such key: absent",
		"state.absent.reduce(t, 0, e, t + e)":                                          "error: the loop runs over null",
		"json('{\"b\": [1, {\"c\": 2.5}]}').b[1].c":                                    "2.5",
		"json('[1, \"x\", null, true]')":                                               `[1,"x",null,true]`,
		"json('{\"$numberDecimal\": \"1.10\"}') == decimal('1.1')":                     "true",
		"json('12') + 1":                            "13",
		"json('1},{\"x\": 2')":                      "error: json cannot read the text: ",
		"json('1, \"x\": 2')":                       "error: json cannot read the text: the text has more than one value",
		"json('')":                                  "error: json cannot read the text: ",
		"json('{')":                                 "error: json cannot read the text: ",
		"json(payload.list)":                        "error: json does not take list",
		"payload.doc.merge({'b': 2})":               `{"a":{"x":1},"b":2}`,
		"{'b': 2}.merge(payload.doc)":               `{"a":{"x":1},"b":1}`,
		"payload.doc.merge({'a': {'y': 2}}).a":      `{"y":2}`,
		"state.?totals.orValue({}).merge({'a': 1})": `{"a":1}`,
		"state.absent.merge({'a': 1})":              "error: merge does not take null and map: give a field",
		"payload.doc.merge(1)":                      "error: merge does not take map and int: it takes two maps",
	})
}

// TestFieldWithTwoValuesIsMergedOnce merges a document that has a field twice.
func TestFieldWithTwoValuesIsMergedOnce(t *testing.T) {
	t.Parallel()
	p := projectiontest.On(t, `{set: {v: "payload.doc.merge({'b': 2})", w: "{'b': 2}.merge(payload.doc)"}}`)
	ev := projectiontest.Event(1, "E", `{"doc":{"a":1,"a":2,"b":1}}`)
	if f := p.Fold(nil, []*event.Event{ev}); f.Err != nil || projectiontest.JSON(t, f.State()) != `{"v":{"a":1,"b":2},"w":{"a":1,"b":1}}` {
		t.Errorf("got %s, %v", projectiontest.JSON(t, f.State()), f.Err)
	}
}

// TestDeclaredNumbersKeepResults calls functions that CEL has for several types of numbers.
func TestDeclaredNumbersKeepResults(t *testing.T) {
	t.Parallel()
	const on = "projections: [{name: p, collection: c, on: {E: {set: {v: \"%\"}}}}]"
	for _, function := range []string{"ceil", "floor", "round", "trunc", "isNaN", "isInf", "isFinite"} {
		plain := strings.ReplaceAll(on, "%", "math."+function+"(payload.weight)")
		typed := "events: {E: {properties: {weight: {bsonType: double}}}}\n" + plain
		a, b := projectiontest.One(t, plain), projectiontest.One(t, typed)
		ev := projectiontest.Event(1, "E", `{"weight":{"$numberDecimal":"1.5"}}`)
		plainly, declared := a.Fold(nil, []*event.Event{ev}), b.Fold(nil, []*event.Event{ev})
		if plainly.Err != nil || projectiontest.JSON(t, plainly.State()) != projectiontest.JSON(t, declared.State()) {
			t.Errorf("%s gives %s (%v) and %s (%v)", function, projectiontest.JSON(t, plainly.State()), plainly.Err, projectiontest.JSON(t, declared.State()), declared.Err)
		}
		decimals := "events: {E: {properties: {weight: {bsonType: decimal}}}}\n" + plain
		if f := projectiontest.One(t, decimals).Fold(nil, []*event.Event{ev}); f.Err != nil || projectiontest.JSON(t, f.State()) != projectiontest.JSON(t, plainly.State()) {
			t.Errorf("%s of a declared decimal gives %s, %v", function, projectiontest.JSON(t, f.State()), f.Err)
		}
	}
	one := projectiontest.One(t, `
events: {E: {properties: {price: {bsonType: decimal}, n: {type: integer}, prices: {type: array, items: {bsonType: decimal}}, doc: {type: object, properties: {a: {type: integer}}}}}}
projections: [{name: p, collection: c, on: {E: {set: {v: "[math.greatest(payload.price, payload.n), payload.price / payload.n, math.round(payload.price, 1), payload.prices.sort()[0], payload.prices.sum(), payload.prices.map(p, {'p': p}).sortBy(e, e.p)[0].p, math.least(payload.prices)]", w: "payload.doc.merge({'b': 1})"}}}}]`)
	f := one.Fold(nil, []*event.Event{projectiontest.Event(1, "E", `{"price":{"$numberDecimal":"1.55"},"n":2,"prices":[{"$numberDecimal":"3"},{"$numberDecimal":"2"}],"doc":{"a":1}}`)})
	if want := `{"v":[2,` + strings.Join([]string{dec("0.775"), dec("1.6"), dec("2"), dec("5"), dec("2"), dec("2")}, ",") + `],"w":{"a":1,"b":1}}`; projectiontest.JSON(t, f.State()) != want {
		t.Errorf("got %s, %v, want %s", projectiontest.JSON(t, f.State()), f.Err, want)
	}
}
