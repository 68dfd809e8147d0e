package projection_test

import (
	"fmt"
	"math/big"
	"runtime"
	"slices"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// attack is an expression over a payload of large values. Some exceed a limit, others are
// fast enough. None may take long, or much memory.
type attack struct {
	// function is the function or operator that is attacked. A macro has its name.
	function   string
	expression string
	// applied says that the event is applied in spite of its size. Otherwise it exceeds a
	// limit.
	applied bool
}

// attacks attack each function of the language, most of them in a loop too.
var attacks = []attack{
	{"_+_", "payload.texts.map(x, payload.text + x).size()", false},
	{"_+_", "payload.huge + payload.huge + payload.huge + payload.huge + payload.huge + payload.huge + payload.huge + payload.huge + payload.huge", false},
	{"_+_", "(payload.numbers + payload.numbers + payload.numbers).size()", true},
	{"_+_", "(payload.huge" + strings.Repeat(" + payload.huge", 100) + ").size()", false},
	{"_+_", "(bytes(payload.huge)" + strings.Repeat(" + bytes(payload.huge)", 100) + ").size()", false},
	{"_+_", "payload.numbers" + strings.Repeat(" + payload.numbers", 200), false},
	{"_+_", "(payload.numbers" + strings.Repeat(" + payload.numbers", 200) + ").distinct()", false},
	{"_==_", "payload.document == payload.reversed", false},
	{"_==_", "payload.texts.exists(x, payload.text + x == payload.text + 'b')", false},
	{"_==_", "payload.numbers.exists(x, payload.documents == payload.numbers)", false},
	{"_!=_", "payload.document != payload.reversed", false},
	{"_!=_", "payload.numbers.all(x, payload.similar != payload.similar + [x])", false},
	{"_<_", "payload.numbers.filter(x, payload.huge < payload.hugeToo).size()", false},
	{"_<=_", "payload.numbers.filter(x, payload.huge <= payload.hugeToo).size()", false},
	{"_>_", "payload.numbers.filter(x, payload.huge > payload.hugeToo).size()", false},
	{"_>=_", "payload.numbers.filter(x, payload.huge >= payload.hugeToo).size()", false},
	{"@in", "payload.texts.filter(x, !(x in payload.similar)).size()", false},
	{"@in", "payload.names.filter(x, x in payload.document).size()", false},
	{"@in", "payload.document in [payload.reversed]", false},
	{"_[_]", "payload.names.map(x, payload.document[x]).size()", false},
	{"_[_]", "payload.numbers.map(x, payload.numbers[x]).size()", false},
	{"_[_]", "lists.range(10000).map(i, payload.numbers[i]).size()", false},
	{"_[?_]", "payload.names.map(x, payload.document[?x].orValue(0)).size()", false},
	{"_?._", "payload.names.map(x, payload.document.?field29999.orValue(0)).size()", false},
	{"has", "payload.names.filter(x, has(payload.document.field29999)).size()", false},
	{"size", "payload.document.size() + payload.numbers.size() + payload.huge.size()", true},
	{"size", "payload.numbers.filter(x, size(payload.document) > x).size()", false},
	{"size", "payload.numbers.filter(x, size(payload.huge) > x).size()", false},
	{"startsWith", "payload.numbers.filter(x, payload.huge.startsWith(payload.hugeToo)).size()", false},
	{"endsWith", "payload.numbers.filter(x, payload.huge.endsWith(payload.huge)).size()", false},
	{"contains", "payload.numbers.filter(x, payload.huge.contains(payload.text + 'b')).size()", false},
	{"trim", "payload.numbers.filter(x, payload.blank.trim() == '').size()", false},
	{"string", "payload.numbers.map(x, string(bytes(payload.huge))).size()", false},
	{"bytes", "payload.numbers.map(x, bytes(payload.huge)).size()", false},
	{"bool", "bool(payload.huge)", false},
	{"int", "int(payload.digits)", false},
	{"double", "payload.numbers.map(x, double(payload.digits)).size()", false},
	{"timestamp", "timestamp(payload.huge)", false},
	{"duration", "string(duration(payload.huge))", false},
	{"charAt", "payload.numbers.map(x, payload.text.charAt(x)).size()", false},
	{"substring", "payload.numbers.map(x, payload.text.substring(x)).size()", false},
	{"substring", "payload.numbers.map(x, payload.text.substring(0, 3)).size()", false},
	{"lowerAscii", "payload.numbers.map(x, payload.text.lowerAscii()).size()", false},
	{"upperAscii", "payload.numbers.map(x, payload.text.upperAscii()).size()", false},
	{"strings.quote", "payload.numbers.map(x, strings.quote(payload.text)).size()", false},
	{"strings.quote", strings.Repeat("strings.quote(", 12) + `payload.huge.replace('a', '"')` + strings.Repeat(")", 12), false},
	{"reverse", "payload.numbers.map(x, payload.text.reverse()).size()", false},
	{"reverse", "payload.numbers.map(x, payload.numbers.reverse()).size()", false},
	{"indexOf", "payload.text.indexOf(payload.text.substring(100000) + 'b')", false},
	{"lastIndexOf", "payload.text.lastIndexOf('b' + payload.text.substring(100000))", false},
	{"replace", "payload.text.replace('a', payload.text)", false},
	{"replace", "payload.text.replace('', payload.text)", false},
	{"replace", "payload.numbers.map(x, payload.text.replace('a', 'bb')).size()", false},
	{"split", "payload.huge.split('').size()", false},
	{"split", "payload.numbers.map(x, payload.text.split('')).size()", false},
	{"join", "payload.texts.join(payload.text)", false},
	{"join", "payload.numbers.map(x, payload.texts.join(',')).size()", false},
	{"format", "payload.format.format(payload.numbers)", false},
	{"format", "payload.precise.format([1.5])", false},
	{"format", "'%s'.format([payload.texts.map(x, payload.text)])", false},
	{"format", "payload.numbers.map(x, '%s'.format([payload.document])).size()", false},
	{"matches", "payload.text.matches(payload.pattern)", false},
	{"matches", "payload.text.matches(payload.manyClasses)", false},
	{"matches", "payload.numbers.filter(x, payload.text.matches('^(a+a+)+b$')).size()", false},
	{"regex.extract", "regex.extract(payload.text, payload.pattern).orValue('')", false},
	{"regex.extractAll", "regex.extractAll(payload.huge, '').size()", false},
	{"regex.replace", "regex.replace(payload.text, 'a', payload.text)", false},
	{"regex.replace", `regex.replace(payload.text, '(a+)', payload.references)`, false},
	{"slice", "payload.numbers.map(x, payload.numbers.slice(0, 10000)).size()", false},
	{"flatten", "payload.numbers.map(x, payload.nested.flatten(100)).size()", false},
	{"sort", "payload.numbers.map(x, payload.similar.sort()).size()", false},
	{"@sortByAssociatedKeys", "payload.numbers.map(x, payload.similar.sortBy(y, y)).size()", false},
	{"distinct", "payload.texts.distinct().size()", false},
	{"distinct", "payload.similar.distinct().size()", false},
	{"distinct", "[payload.document, payload.reversed].distinct().size()", false},
	{"math.@max", "payload.numbers.map(x, math.greatest(payload.numbers)).size()", false},
	{"math.@min", "payload.numbers.map(x, math.least(payload.numbers)).size()", false},
	{"sets.contains", "sets.contains(payload.texts, payload.texts)", false},
	{"sets.equivalent", "sets.equivalent(payload.texts, payload.texts)", false},
	{"sets.intersects", "sets.intersects(payload.texts, payload.numbers)", false},
	{"hasAll", "payload.texts.hasAll(payload.texts)", false},
	{"hasAny", "payload.texts.hasAny(payload.numbers)", false},
	{"hasOnly", "payload.texts.hasOnly(payload.texts)", false},
	{"hasExactly", "payload.texts.hasExactly(payload.texts)", false},
	{"lists.range", "payload.numbers.map(x, lists.range(10000)).size()", false},
	{"first", "payload.numbers.map(x, payload.numbers.first()).size()", false},
	{"last", "payload.numbers.map(x, payload.numbers.last()).size()", false},
	{"getFullYear", "payload.texts.map(x, timestamp.getFullYear('Europe/Berlin')).size()", false},
	{"getMonth", "payload.texts.map(x, timestamp.getMonth(payload.zone)).size()", false},
	{"plus", "payload.numbers.map(x, timestamp.plus(x, 'days', 'Europe/Berlin')).size()", false},
	{"plus", "payload.texts.filter(x, timestamp.plus(1, 'day', x) == timestamp || true).size()", false},
	{"startOf", "payload.numbers.map(x, timestamp.startOf('week', 'Europe/Berlin')).size()", false},
	{"startOf", "timestamp.startOf('week', payload.zone)", false},
	{"startOf", "timestamp.startOf(payload.huge)", false},
	{"strftime", "timestamp.strftime(payload.huge.replace('a', '%Y'))", false},
	{"strftime", "payload.numbers.map(x, timestamp.strftime(payload.text)).size()", false},
	{"total", "payload.numbers.map(x, duration(x, 'days').total(payload.huge)).size()", false},
	{"decimal", "payload.numbers.filter(x, decimal(payload.digits) == x || true).size()", false},
	{"decimal", "payload.similar.map(i, decimal('9e6111') + decimal('1e-6176') - decimal('1e-99999')).size()", true},
	{"_/_", "payload.similar.map(i, decimal('1e-6176') / decimal('7e6111')).size()", true},
	{"math.divide", "payload.similar.map(i, math.divide(decimal('7e-6176'), decimal('7e6111'), 30)).size()", true},
	{"math.round", "payload.similar.map(i, math.round(decimal('7e-6176'), 30, 'up')).size()", true},
	{"int", "payload.similar.filter(i, int(decimal('1e-6176')) == 0).size()", true},
	{"sum", "payload.numbers.sum() + lists.range(5000).sum(x, x)", true},
	{"sum", "payload.numbers.map(x, payload.numbers.sum()).size()", false},
	{"sum", "payload.decimals.sum() > decimal(0)", true},
	{"sum", "payload.numbers.map(x, payload.decimals.sum()).size()", false},
	{"sum", "payload.texts.sum()", false},
	{"sort", "payload.decimals.sort().size()", false},
	{"sort", "payload.numbers.map(x, payload.decimals.sort()).size()", false},
	{"math.@max", "payload.numbers.map(x, math.greatest(payload.decimals)).size()", false},
	{"merge", "payload.document.merge(payload.reversed).size()", true},
	{"merge", "payload.numbers.map(x, payload.document.merge({'a': x})).size()", false},
	{"merge", "payload.names.reduce(m, {}, name, m.merge({name: 1})).size()", false},
	{"json", "json('[' + payload.text.replace('a', '1,') + '1]').size()", true},
	{"json", "payload.numbers.map(x, json('[' + payload.text.replace('a', '1,') + '1]')).size()", false},
	{"json", "json(payload.text.replace('a', '['))", false},
	{"reduce", "payload.numbers.reduce(l, [1], x, l + l).size()", false},
	{"reduce", "payload.numbers.reduce(text, 'a', x, text + text).size()", false},
	{"reduce", "payload.numbers.reduce(l, 1, x, [l, l])", false},
	{"reduce", "payload.numbers.reduce(m, {}, x, {'a': m, 'b': m})", false},
	{"reduce", "payload.similar.reduce(l, [], x, l + [x]).map(x, x).size()", true},
	{"reduce", "payload.numbers.reduce(l, [], x, [x] + l).size()", false},
	{"reduce", "payload.similar.slice(0, 1000).reduce(m, {'l': []}, x, {'l': m.l + [x]}).l.map(x, x).size()", true},
	{"reduce", "payload.numbers.reduce(l, payload.numbers, x, l + payload.numbers).size()", false},
	{"reduce", "lists.range(58).reduce(m, {'l': [1]}, x, {'l': m.l + m.l}).l.sort().size()", false},
	{"reduce", "payload.numbers.reduce(m, {'l': [1]}, x, {'l': m.l + m.l}).l.reverse().size()", false},
	{"reduce", "lists.range(6).reduce(l, [1, 1, 1, 1, 1, 1, 1, 1], x, l + l + l + l + l + l + l + l + l + l + l + l + l + l + l + l).size()", false},
	{"reduce", "payload.numbers.reduce(n, 0, x, payload.numbers.reduce(n, n, y, n + y))", false},
	{"reduce", "payload.numbers.reduce(d, decimal('9e6111'), x, d + decimal('1e-6176'))", true},
	{"map", "payload.numbers.map(x, payload.numbers.map(y, x + y)).size()", false},
	{"map", "payload.numbers.map(x, {'n': x, 'text': payload.text})", false},
	{"map", "payload.document.map(k, k).size()", false},
	{"map", "payload.documents.filter(d, d in payload.similar).size()", false},
	{"transformMap", "payload.document.transformMap(k, v, payload.text)", false},
	{"transformMapEntry", "payload.numbers.transformMapEntry(i, v, payload.document)", false},
	{"cel.bind", nest("d"), false},
	{"cel.bind", nest("'%s'.format([d])"), false},
	{"event", "event", false},
}

// nest wraps an expression so that d is a list of lists, which has a text many times.
func nest(expression string) string {
	for i, name := range []string{"d", "c", "b", "a"} {
		of := []string{"c", "b", "a", "payload.text"}[i]
		expression = fmt.Sprintf("cel.bind(%s, [%s], %s)", name, strings.Join(slices.Repeat([]string{of}, 6), ", "), expression)
	}
	return expression
}

// attackPayload is the payload of all attacks.
func attackPayload() bson.RawValue {
	var numbers, texts, similar, names, documents bson.A
	var document bson.D
	for i := range 30_000 {
		name := fmt.Sprintf("field%05d", i)
		document, names = append(document, bson.E{Key: name, Value: i}), append(names, name)
		if i < 20_000 {
			numbers, texts = append(numbers, i), append(texts, "text "+name)
			documents = append(documents, bson.D{{Key: "name", Value: name}, {Key: "n", Value: i}})
		}
		if i < 2_000 {
			similar = append(similar, strings.Repeat("s", 1_000)+name)
		}
	}
	var decimals bson.A
	for i := range 30_000 {
		d, _ := bson.ParseDecimal128FromBigInt(big.NewInt(int64(i*7919%30_000+1)), bson.MinDecimal128Exp+i*(bson.MaxDecimal128Exp-bson.MinDecimal128Exp)/30_000)
		decimals = append(decimals, d)
	}
	reversed := slices.Clone(document)
	slices.Reverse(reversed)
	nested := bson.A{}
	for range 80 {
		nested = bson.A{nested, numbers[:100]}
	}
	text, huge := strings.Repeat("a", 200_000), strings.Repeat("a", 4<<20)
	return testkit.Value(bson.D{
		{Key: "text", Value: text}, {Key: "huge", Value: huge}, {Key: "hugeToo", Value: huge[1:] + "b"},
		{Key: "blank", Value: strings.Repeat(" ", 200_000)}, {Key: "digits", Value: strings.Repeat("1", 200_000)},
		{Key: "numbers", Value: numbers}, {Key: "texts", Value: texts}, {Key: "similar", Value: similar}, {Key: "names", Value: names},
		{Key: "documents", Value: documents}, {Key: "nested", Value: nested}, {Key: "decimals", Value: decimals},
		{Key: "format", Value: strings.Repeat("%.999f", 20_000)}, {Key: "precise", Value: "%.2000000000f"},
		{Key: "pattern", Value: strings.Repeat("(a?){1000}", 1_000)}, {Key: "manyClasses", Value: strings.Repeat(`\pL`, 60_000)},
		{Key: "references", Value: strings.Repeat(`\1`, 10_000)}, {Key: "zone", Value: strings.Repeat("Europe/", 20_000)},
		{Key: "document", Value: document}, {Key: "reversed", Value: reversed},
	})
}

// processorTime is the processor time that this process (syscall.RUSAGE_SELF) or this thread
// (syscall.RUSAGE_THREAD) has used.
func processorTime(tb testing.TB, of int) time.Duration {
	tb.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(of, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// TestAttacksAreBounded checks that no expression over large values takes long or much
// memory, and that an event that is not applied parks with a short error.
func TestAttacksAreBounded(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector multiplies the time")
	}
	const (
		// most is the processor time. It is several times what an attack takes.
		most       = 2 * time.Second
		mostMemory = 256 << 20
	)
	ev := &event.Event{
		Keys:      event.Keys{AggregateID: "a-1", EventID: 1, EventType: "E"},
		Timestamp: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Payload:   attackPayload(),
	}
	// As many other fields as a document can have, for the variable event.
	var fields bson.D
	for i := range 500_000 {
		fields = append(fields, bson.E{Key: fmt.Sprint("f", i), Value: true})
	}
	ev.Document = testkit.Raw(fields)
	for i, a := range attacks {
		t.Run(fmt.Sprintf("%d/%s", i, a.function), func(t *testing.T) {
			f := foldAttack(t, a.expression, ev, most, mostMemory)
			if (f.Err == nil) != a.applied {
				t.Errorf("%s: %v", a.expression, f.Err)
			}
			if f.Err != nil && (f.Err.Reason != projection.ReasonExpression && f.Err.Reason != projection.ReasonRejected || len(f.Err.Error()) > 1<<20) {
				t.Errorf("%s: reason %s with an error of %d bytes", a.expression, f.Err.Reason, len(f.Err.Error()))
			}
		})
	}
}

// foldSlowly folds events on a machine that may be too busy for the time that an event has.
func foldSlowly(p *projection.Projection, events ...*event.Event) projection.Fold {
	for {
		if f := p.Fold(nil, events); f.Err == nil || f.Err.Reason != projection.ReasonUnavailable {
			return f
		}
	}
}

// addSlowly adds events one after the other, as foldSlowly does, up to the first error.
func addSlowly(p *projection.Projection, events []*event.Event, add func(*projection.Accumulator, *event.Event) *projection.Error) *projection.Error {
	for {
		var failed *projection.Error
		a := p.Begin(nil)
		for i := 0; i < len(events) && failed == nil; i++ {
			failed = add(a, events[i])
		}
		if failed == nil || failed.Reason != projection.ReasonUnavailable {
			return failed
		}
	}
}

// TestOperatorsAreBounded checks that an operator above a limit leaves the document as it
// was before the event.
func TestOperatorsAreBounded(t *testing.T) {
	t.Parallel()
	if raceDetector {
		t.Skip("the race detector multiplies the time")
	}
	payload := attackPayload()
	for _, operator := range []string{"addToSet", "pull"} {
		p := projectiontest.One(t, `
projections:
  - name: p
    collection: c
    on:
      First: {push: {list: payload.document}}
      E: {inc: {count: "1"}, `+operator+`: {list: payload.reversed}}
`)
		events := []*event.Event{projectiontest.Event(1, "First", ""), projectiontest.Event(2, "E", ""), projectiontest.Event(3, "First", "")}
		for _, ev := range events {
			ev.Payload = payload
		}
		before, f := foldSlowly(p, events[:1]...), foldSlowly(p, events...)
		if f.Folded != 1 || f.Err == nil || f.Err.Reason != projection.ReasonExpression || !strings.Contains(f.Err.Error(), operator+" list") {
			t.Fatalf("%s: %d events are folded, %v", operator, f.Folded, f.Err)
		}
		if !slices.Equal(f.State(), before.State()) {
			t.Errorf("%s has changed the document", operator)
		}
	}
}

// TestEveryPathHasTheSameLimits checks that an event above a limit fails alike in a live
// batch, in a build or a sweep, and in an explanation, which reads more than they do.
func TestEveryPathHasTheSameLimits(t *testing.T) {
	t.Parallel()
	payload := attackPayload()
	for _, expression := range []string{
		"payload.text.replace('a', payload.text)", "payload.texts.distinct().size()", "payload.format.format(payload.numbers)",
		"payload.numbers.map(x, payload.numbers.reverse()).size()", "payload.text.size()",
	} {
		p := projectiontest.On(t, fmt.Sprintf("{set: {first: payload.text, result: %q}}", expression))
		events := []*event.Event{projectiontest.Event(1, "E", ""), projectiontest.Event(2, "E", "")}
		for _, ev := range events {
			ev.Payload = payload
		}
		want := fmt.Sprint(foldSlowly(p, events...).Err)
		for what, add := range map[string]func(*projection.Accumulator, *event.Event) *projection.Error{
			"a build": func(a *projection.Accumulator, ev *event.Event) *projection.Error { return a.Add([]*event.Event{ev}) },
			"an explanation": func(a *projection.Accumulator, ev *event.Event) *projection.Error {
				_, failed := a.Trace(ev)
				return failed
			},
		} {
			if got := fmt.Sprint(addSlowly(p, events, add)); got != want {
				t.Errorf("%s: %s says\n%s, live events say\n%s", expression, what, got, want)
			}
		}
	}
}

// TestExplanationHasTheExactLimit finds the largest loop that live events pass, and explains
// events at the limit. The explanation shows a document that no evaluation reads.
func TestExplanationHasTheExactLimit(t *testing.T) {
	t.Parallel()
	if raceDetector {
		t.Skip("the race detector multiplies the time")
	}
	p := projectiontest.On(t, `{set: {first: "payload.n < 0 ? size(payload.big) : 0", result: "size(payload.big) + lists.range(2).map(i, payload.huge.indexOf('b')).size() + lists.range(payload.n).map(i, payload.text.indexOf('b')).size()"}}`)
	d := bson.D{{Key: "text", Value: strings.Repeat("a", 2_000)}, {Key: "huge", Value: strings.Repeat("a", 4<<20)}}
	for i := range 1_000 {
		d = append(d, bson.E{Key: fmt.Sprint("field", i), Value: true})
	}
	d = append(d, bson.E{Key: "big", Value: bson.D{{Key: "text", Value: strings.Repeat("a", 2_000)}}})
	eventWith := func(n int) *event.Event {
		ev := projectiontest.Event(1, "E", "")
		ev.Payload = testkit.Value(append(bson.D{{Key: "n", Value: n}}, d...))
		return ev
	}
	passes := func(n int) bool { f := foldSlowly(p, eventWith(n)); return f.Err == nil }
	most := sort.Search(5_000, func(n int) bool { return !passes(n) }) - 1
	if most < 1 || most > 4_000 {
		t.Fatalf("%d repetitions pass", most)
	}
	for n := most; n <= most+1; n++ {
		if _, err := p.Begin(nil).Trace(eventWith(n)); (err == nil) != passes(n) {
			t.Errorf("%d repetitions of at most %d: %v", n, most, err)
		}
	}
}

// foldAttack folds an event with an expression, and checks the processor time and the memory that
// this takes.
func foldAttack(t *testing.T, expression string, ev *event.Event, most time.Duration, mostMemory uint64) projection.Fold {
	t.Helper()
	p := projectiontest.On(t, fmt.Sprintf("{set: {result: %q}}", expression))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begun := processorTime(t, syscall.RUSAGE_SELF)
	f := p.Fold(nil, []*event.Event{ev})
	took := processorTime(t, syscall.RUSAGE_SELF) - begun
	runtime.ReadMemStats(&after)
	if f.Err != nil && f.Err.Reason == projection.ReasonUnavailable {
		f = foldSlowly(p, ev) // a busy machine
	}
	allocated := after.TotalAlloc - before.TotalAlloc
	t.Logf("%s takes %s and %d MiB: %v", expression, took, allocated>>20, f.Err)
	if took > most || allocated > mostMemory {
		t.Errorf("%s takes %s and allocates %d MiB", expression, took, allocated>>20)
	}
	return f
}
