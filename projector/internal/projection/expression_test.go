package projection_test

import (
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// TestExpressions checks the inputs and results of expressions.
func TestExpressions(t *testing.T) {
	t.Parallel()
	const payload = `{"n":{"$numberInt":"3"},"l":{"$numberLong":"4"},"d":2.0,"s":"text","b":true,"z":null,
		"id":{"$oid":"64b7f8a2c9e77a0001234567"},"uuid":{"$uuid":"00112233-4455-6677-8899-aabbccddeeff"},"older":{"$binary":{"base64":"MyIRAFVEd2aImaq7zN3u/w==","subType":"03"}},
		"dec":{"$numberDecimal":"12.50"},"bin":{"$binary":{"base64":"AQI=","subType":"00"}},"at":{"$date":"2026-05-06T07:08:09.010Z"},
		"doc":{"x":1,"y":{"z":[1,2,3]}},"list":[1,"a",{"k":1}],"re":{"$regularExpression":{"pattern":"a","options":""}}}`
	tests := []struct{ expression, want string }{
		{"payload.n * 2 + 1", `{"v":{"$numberLong":"7"}}`},
		{"payload.n * payload.l", `{"v":{"$numberLong":"12"}}`},
		{"payload.n < payload.d", `{"v":false}`},
		{"payload.l == 4.0", `{"v":true}`},
		{"payload.d * 2.0", `{"v":4.0}`},
		{"payload.d * 2", `{"v":4.0}`},
		{"2 * payload.d", `{"v":4.0}`},
		{"payload.n * 10.5", `{"v":31.5}`},
		{"payload.l - payload.d", `{"v":2.0}`},
		{"payload.n / payload.d", `{"v":1.5}`},
		{"payload.n / 2", `{"v":{"$numberLong":"1"}}`},
		{"payload.d % 2", "error: % does not take double and double: it takes ints"},
		{"-payload.dec", `{"v":{"$numberDecimal":"-12.50"}}`},
		{"payload.n - -payload.dec", `{"v":{"$numberDecimal":"15.50"}}`},
		{"-payload.n + -payload.d", `{"v":-5.0}`},
		{"-payload.s", "error: - does not take string"},
		{"eventId * 1.5", `{"v":13.5}`},
		{"9223372036854775807 * payload.n", "error: overflow"},
		{"9223372036854775807 * payload.d", `{"v":1.8446744073709552e19}`},
		{"payload.n <= payload.d && payload.d >= 2 && 2 < payload.n", `{"v":false}`},
		{"payload.d == 2 && 2 == payload.d && payload.d != 3", `{"v":true}`},
		{"payload.s < payload.n", "error: < does not take string and int: convert the text"},
		{"payload.b < true", `{"v":false}`},
		{"payload.at - duration('1h') < payload.at", `{"v":true}`},
		{"int(payload.d) * 2", `{"v":{"$numberLong":"4"}}`},
		{"payload.nothing", "error: no such key: nothing (if a field can be absent, read it as .?field"},
		{"payload.?nothing.orValue('none')", `{"v":"none"}`},
		{"payload.?doc.?nothing.?more.orValue(1)", `{"v":{"$numberLong":"1"}}`},
		{"has(payload.doc.x) && !has(payload.doc.q)", `{"v":true}`},
		{"payload.doc.y.z[1]", `{"v":{"$numberLong":"2"}}`},
		{"payload.doc.y.z[3]", "error: index out of bounds: 3"},
		{"payload.doc['x']", `{"v":{"$numberLong":"1"}}`},
		{"payload.doc", `{"v":{"x":{"$numberInt":"1"},"y":{"z":[1,2,3]}}}`},
		{"payload.list + [payload.n]", `{"v":[{"$numberLong":"1"},"a",{"k":{"$numberInt":"1"}},{"$numberLong":"3"}]}`},
		{"payload.list", `{"v":[1,"a",{"k":1}]}`},
		{"payload.list.filter(e, type(e) == int)", `{"v":[{"$numberLong":"1"}]}`},
		{"size(payload.list) + size(payload.doc) + size(payload.s)", `{"v":{"$numberLong":"9"}}`},
		{"'a' in payload.list && 'x' in payload.doc", `{"v":true}`},
		{"payload.doc.map(k, k)", `{"v":["x","y"]}`},
		{"payload.doc == {'y': {'z': [1, 2, 3]}, 'x': 1.0}", `{"v":true}`},
		{"{'y': {'z': [1, 2, 3]}, 'x': 1.0} == payload.doc", `{"v":true}`},
		{"payload.doc.y.z == [1, 2, 3] && [1, 2, 3] == payload.doc.y.z", `{"v":true}`},
		{"payload.doc == payload.doc.y", `{"v":false}`},
		{"payload.id", `{"v":{"$oid":"64b7f8a2c9e77a0001234567"}}`},
		{"string(payload.id)", `{"v":"64b7f8a2c9e77a0001234567"}`},
		{"payload.id == payload.id && payload.id != payload.uuid", `{"v":true}`},
		{"payload.id == string(payload.id)", `{"v":false}`},
		{"[payload.uuid]", `{"v":[{"$uuid":"00112233-4455-6677-8899-aabbccddeeff"}]}`},
		{"string(payload.uuid)", `{"v":"00112233-4455-6677-8899-aabbccddeeff"}`},
		{"uuid(payload.older, 'csharpLegacy') == payload.uuid && uuid(payload.uuid, 'javaLegacy') == payload.uuid", `{"v":true}`},
		{"string(uuid(payload.older, payload.?nothing.orValue('csharpLegacy')))", `{"v":"00112233-4455-6677-8899-aabbccddeeff"}`},
		{"uuid(payload.older, 'javaLegacy')", `{"v":{"$uuid":"66774455-0011-2233-ffee-ddccbbaa9988"}}`},
		{"payload.older", `{"v":{"$binary":{"base64":"MyIRAFVEd2aImaq7zN3u/w==","subType":"03"}}}`},
		{"string(payload.older)", "error: write uuid(value, 'csharpLegacy')"},
		{"payload.older + ''", "error: write uuid(value, 'csharpLegacy')"},
		{"uuid(payload.older, payload.s)", `error: "text" is no order of the bytes of older UUIDs`},
		{"uuid(payload.s, 'csharpLegacy')", "error: it takes a binary of 16 bytes of subtype 3 or 4"},
		{"uuid(payload.bin, 'csharpLegacy')", "error: it takes a binary of 16 bytes of subtype 3 or 4"},
		{"payload.dec", `{"v":{"$numberDecimal":"12.50"}}`},
		{"double(payload.dec) * 2.0", `{"v":25.0}`},
		{"string(payload.dec)", `{"v":"12.50"}`},
		{"payload.dec + 1", `{"v":{"$numberDecimal":"13.50"}}`},
		{"payload.n * payload.dec", `{"v":{"$numberDecimal":"37.50"}}`},
		{"payload.dec - 0.1", `{"v":{"$numberDecimal":"12.40"}}`},
		{"payload.dec > 12 && 12.75 > payload.dec && payload.dec <= payload.dec", `{"v":true}`},
		{"payload.dec == 12.5 && 12.5 == payload.dec && payload.dec != 12 && 12 != payload.dec", `{"v":true}`},
		{"payload.dec > payload.s", "error: > does not take Decimal128 and string"},
		{"payload.dec + payload.s", "error: + does not take Decimal128 and string: convert the other value with string(…)"},
		{"payload.re", `{"v":{"$regularExpression":{"pattern":"a","options":""}}}`},
		{"payload.bin", `{"v":{"$binary":{"base64":"AQI=","subType":"00"}}}`},
		{"payload.bin + b'\\x03'", `{"v":{"$binary":{"base64":"AQID","subType":"00"}}}`},
		{"payload.at", `{"v":{"$date":"2026-05-06T07:08:09.010Z"}}`},
		{"payload.at + duration('1h')", `{"v":{"$date":"2026-05-06T08:08:09.010Z"}}`},
		{"payload.at.getHours()", `{"v":{"$numberLong":"7"}}`},
		{"payload.at < timestamp", `{"v":false}`},
		{"string(payload.at)", `{"v":"2026-05-06T07:08:09.01Z"}`},
		{"payload.z == null", `{"v":true}`},
		{"payload.z", `{"v":null}`},
		{"timestamp", `{"v":{"$date":"2026-01-02T03:04:05.006Z"}}`},
		{"event.timestamp == timestamp && event.payload.n == 3 && event.eventId == eventId", `{"v":true}`},
		{"aggregateId + '/' + string(eventId) + ' ' + eventType + ' ' + aggregateType", `{"v":"a-1/9 E Thing"}`},
		{"size(metadata)", `{"v":{"$numberLong":"0"}}`},
		{"state.status != 'shipped'", `{"v":true}`},
		{"state.status == null && null == state.status", `{"v":true}`},
		{"state['status'] == null", `{"v":true}`},
		{"state.address.city == 'Berlin'", `{"v":false}`},
		{"state.address.city", `{"v":null}`},
		{"has(state.status) || has(state.address.city) || 'status' in state", `{"v":false}`},
		{"has(state.old) && has(state.items)", `{"v":true}`},
		{"state.?status.orValue('none') + state.?address.?city.orValue('none')", `{"v":"nonenone"}`},
		{"state.?address.city.orValue('none')", `{"v":"none"}`},
		{"state.address.?city.orValue('none')", `{"v":"none"}`},
		{"payload.b ? state.status : state.old", `{"v":null}`},
		{"(payload.b ? state.address : state).city", `{"v":null}`},
		{"state.items[0].sku", `{"v":"a"}`},
		{"state.items[0].price", `{"v":null}`},
		{"state.items[7]", "error: index out of bounds: 7"},
		{"state.old.deeper", "error: no such key: deeper"},
		{"state[payload.nothing]", "error: no such key: nothing"},
		{"state[payload.s]", `{"v":null}`},
		{"state.status + 1", "error: + does not take null and int: give a field that may be absent a default"},
		{"state.status > 1", "error: > does not take null and int"},
		{"state.old + 1", `{"v":{"$numberLong":"42"}}`},
		{"has(state._id) || has(state.lastEventId) || has(state.lastUpdatedAt) || has(state.lastGeneration)", `{"v":false}`},
		{"size(state)", `{"v":{"$numberLong":"2"}}`},
		{"size(state.items)", `{"v":{"$numberLong":"2"}}`},
		{"state.items.exists(i, i.sku == 'b')", `{"v":true}`},
		{"state.map(k, k)", `{"v":["items","old"]}`},
		{"1 / 0", "error: division by zero"},
		{"payload.n / (payload.l - 4)", "error: division by zero"},
		{"9223372036854775807 + payload.n", "error: overflow"},
		{"payload.s + payload.n", "error: + does not take string and int: convert the other value with string(…)"},
		{"payload.s.upperAscii().split('')", `{"v":["T","E","X","T"]}`},
		{"lists.range(3)", `{"v":[{"$numberLong":"0"},{"$numberLong":"1"},{"$numberLong":"2"}]}`},
		{"lists.range(9000).map(a, lists.range(9000).map(b, a * b).size()).size()", "error: evaluation took too long"},
		{"lists.range(payload.l * 1000000)", "error: exceeds maximum allowed"},
		{"sets.contains(payload.list, ['a'])", `{"v":true}`},
		{"cel.bind(x, payload.n, x + x)", `{"v":{"$numberLong":"6"}}`},
		{"payload.doc.transformMap(k, v, k == 'x', 5)", `{"v":{"x":{"$numberLong":"5"}}}`},
		{"'%d of %s'.format([payload.n, payload.s])", `{"v":"3 of text"}`},
		{"string(event.extra.more)", `{"v":"yes"}`},
		{"payload.s.matches('^t.*t$')", `{"v":true}`},
		{"optional.of(payload.n)", `{"v":{"$numberLong":"3"}}`},
		{"[payload.?n]", "error: optional value inside another"},
		{"timestamp('2026-01-01T00:00:00Z') - payload.at", "error: a duration cannot be stored as BSON: store a number of a unit, such as (timestamp - state.since).getSeconds()"},
		{"{'a': duration('1h')}", "error: a: a duration cannot be stored as BSON: store a number of a unit"},
		{"timestamp - state.since", "error: - does not take timestamp and null: give a field"},
		{"size(state.absent)", "error: size does not take these types: convert a value, or give a field"},
		{"1 in state.absent", "error: in does not take int and null: give a field"},
		{"payload.n && true", "error: a value has a type that does not fit: convert it"},
		{"state.absent.map(x, x)", "error: the loop runs over null: give a list that may be absent a default, such as payload.?lines.orValue([]), and write x == null ? [] : x"},
		{"decimal('1') == 1", "error: == does not take Decimal128 and int: write dyn(…) around one of them"},
		{"size(payload.s) in [4.0]", "error: in does not take int and list: the elements have another type: write dyn(…) around the left side"},
		{"[1] + ['a']", "error: + does not take list and list: the elements have different types"},
		{"(timestamp('2026-01-01T00:00:00Z') - timestamp('0001-01-01T00:00:00Z')).getHours()", "error: the times are more than 290 years apart"},
		{"timestamp('9999-12-31T23:59:59Z') + duration(1, 'hours') == timestamp", "error: the time is not between the years 1 and 9999$"},
		{"timestamp(payload.n * 1000000000000)", "error: the time is not between the years 1 and 9999: timestamp(n) takes seconds"},
		{"int(payload.s)", "error: int() cannot convert this string: it has another form, or is out of range"},
		{"double(decimal('1E400'))", "error: double() cannot convert this Decimal128"},
		{"duration(payload.s) > duration('1h')", "error: the duration is not valid: write duration('36h30m')"},
		{"payload.s.plus(1, 'day')", "error: plus does not take string and int and string: it takes a time, a whole number and a unit"},
		{"payload.n.map(x, x)", "error: the loop runs over Int: a loop runs over a list or a map"},
		{"payload.list[payload.s]", "error: a list has positions and no fields: write list[0] for an element, size(list) for its length"},
		{"payload.list.length", "error: a list has positions and no fields: write list[0] for an element, size(list) for its length"},
		{"payload.list.slice(-1, 2)", "error: cannot slice(-1, 2): positions count from the start. The last three elements are list.slice(math.greatest(0, size(list) - 3), size(list))"},
		{"payload.list.slice(0, 9)", "error: cannot slice(0, 9), list is length 3: bound the end, as in list.slice(0, math.least(3, size(list)))"},
		{"payload.list.slice(2, 1)", "error: cannot slice(2, 1): the start is after the end"},
		{"payload.list[9]", "error: index out of bounds: 9 (if an element can be absent, read it as list[?0]"},
		{"payload.s.substring(0, 9)", "error: index out of range: 9 (bound it, as in text.substring(0, math.least(3, size(text))))"},
		{"[1, payload.s].sort()", "error: the list cannot be sorted, because its elements have different types"},
		{"[payload.doc].sort()", "error: the list cannot be sorted, because its elements have no order: sort documents by a field"},
		{"payload.list.join(',')", "error: join does not take list and string: it joins texts. Convert other elements"},
		{"'%s'.format(payload.s)", "error: format does not take string and string: its argument is a list"},
		{"string(payload.doc)", "error: string does not take map: convert a value"},
		{"timestamp(payload.s)", "error: invalid RFC 3339 timestamp \"text\" (write a time as 2026-01-31T12:00:00Z"},
		{"NaN", "compile"},
	}
	state := testkit.FromJSON(`{"_id":"a-1","lastEventId":8,"lastUpdatedAt":{"$date":"2026-01-01T00:00:00Z"},"lastGeneration":2,"old":41,"items":[{"sku":"a"},{"sku":"b"}]}`)
	for _, test := range tests {
		t.Run(test.expression, func(t *testing.T) {
			t.Parallel()
			projections, err := projection.Parse("test.yaml", []byte("projections: [{name: p, collection: c, on: {E: {set: {v: \""+
				strings.ReplaceAll(test.expression, `\`, `\\`)+"\"}}}}]"))
			if test.want == "compile" {
				if err == nil {
					t.Fatal("the expression compiled, want an error")
				}
				return
			}
			if err != nil {
				if want, ok := strings.CutPrefix(test.want, "error: "); ok && strings.Contains(err.Error(), want) {
					return
				}
				t.Fatal(err)
			}
			ev := projectiontest.Event(9, "E", payload)
			ev.Document = testkit.FromJSON(`{"extra":{"more":"yes"}}`)
			f := projections[0].Fold(state, []*event.Event{ev})
			if want, ok := strings.CutPrefix(test.want, "error: "); ok {
				// A $ says that no advice follows.
				end, whole := strings.CutSuffix(want, "$")
				if f.Err == nil || !strings.Contains(f.Err.Error(), end) || whole && !strings.HasSuffix(f.Err.Error(), end) {
					t.Fatalf("error is %v, want %s", f.Err, want)
				}
				return
			}
			if f.Err != nil {
				t.Fatal(f.Err)
			}
			got, want := f.State().Lookup("v"), testkit.FromJSON(test.want).Lookup("v")
			if !got.Equal(want) {
				t.Errorf("got %s (%s), want %s (%s)", got, got.Type, want, want.Type)
			}
		})
	}
}

// TestAbsentParts checks what expressions see of an event without the optional fields.
func TestAbsentParts(t *testing.T) {
	t.Parallel()
	p := projectiontest.On(t, `{set: {a: "size(payload) + size(metadata)", b: "aggregateType", c: "event.?timestamp", d: "has(event.timestamp)"}}`)
	ev := &event.Event{Keys: event.Keys{AggregateID: "a", EventID: 1, EventType: "E"}}
	f := p.Fold(nil, []*event.Event{ev})
	if f.Err != nil || projectiontest.JSON(t, f.State()) != `{"a":0,"b":"","d":false}` {
		t.Errorf("got %s, %v", projectiontest.JSON(t, f.State()), f.Err)
	}
	f = projectiontest.On(t, `{set: {a: timestamp}}`).Fold(nil, []*event.Event{ev})
	if f.Err == nil || f.Err.Reason != projection.ReasonExpression {
		t.Errorf("an absent timestamp gave %v", f.Err)
	}
}

// TestAmbiguousTimestampIsDescribed checks that an expression that needs the time of an event
// says which form the stored timestamp has, and that the value can be read.
func TestAmbiguousTimestampIsDescribed(t *testing.T) {
	t.Parallel()
	ev, err := testkit.EventReader().Read(testkit.FromJSON(`{"aggregateId": "a", "eventId": 1, "eventType": "E", "timestamp": 1767323045}`))
	if err != nil {
		t.Fatal(err)
	}
	f := projectiontest.On(t, `{set: {a: timestamp}}`).Fold(nil, []*event.Event{&ev})
	if want := "no time, because its timestamp is a number (32-bit integer), which has no unit"; f.Err == nil || !strings.Contains(f.Err.Error(), want) {
		t.Errorf("got %v, want %q", f.Err, want)
	}
	f = projectiontest.On(t, `{set: {a: timestamp(event.timestamp)}}`).Fold(nil, []*event.Event{&ev})
	if f.Err != nil || projectiontest.JSON(t, f.State()) != `{"a":{"$date":"2026-01-02T03:04:05Z"}}` {
		t.Errorf("got %s, %v", projectiontest.JSON(t, f.State()), f.Err)
	}
}

// TestPayloadCanBeAnyValue checks that a payload may be any value.
func TestPayloadCanBeAnyValue(t *testing.T) {
	t.Parallel()
	p := projectiontest.On(t, `{set: {a: payload}}`)
	ev := projectiontest.Event(1, "E", "")
	ev.Payload = testkit.FromJSON(`{"v":[1,{"a":2}]}`).Lookup("v")
	if f := p.Fold(nil, []*event.Event{ev}); f.Err != nil || projectiontest.JSON(t, f.State()) != `{"a":[1,{"a":2}]}` {
		t.Errorf("got %s, %v", projectiontest.JSON(t, f.State()), f.Err)
	}
}
