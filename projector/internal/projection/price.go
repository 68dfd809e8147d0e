package projection

import (
	"math/bits"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	celoperators "cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// price says what a call of a function costs, from its arguments alone. A call that is
// charged too much parks an event that could be applied; one that is charged too little lets
// an event stop its neighbours.
type price struct {
	// charge charges the call. Absent arguments are nil. It must not read further than it
	// charges.
	charge func(m *meter, a, b, c ref.Val)
	// always is false if calls with small texts need no charge: the number of calls is
	// limited by the steps of the evaluation.
	always bool
}

// smallText is the size of a text in bytes up to which a function is not charged if it
// takes time and memory in proportion to the text.
const smallText = 1 << 10

const (
	// runeMemory is the memory for a byte of a text that CEL converts to code points and
	// back.
	runeMemory = 6
	runeWork   = 12
	// partMemory is the memory of an element of a list of texts.
	partMemory = 32
	// formattedMemory bounds the memory of one formatted number.
	formattedMemory = maxPrecision + 400
	// zoneWork and zoneMemory are spent when a time zone is loaded.
	zoneWork, zoneMemory = 20_000, 4 << 10
	// matchMemory is the memory of a match of a regular expression.
	matchMemory = 96
	// patternMemory and patternWork are spent for each byte of a pattern, and
	// instructionMemory and instructionWork for each instruction of its program.
	patternMemory, patternWork         = 1 << 10, 200
	instructionMemory, instructionWork = 200, 500
)

// maxPrecision bounds the digits after the point in format.
const maxPrecision = 1000

// prices are the functions whose time or memory depends on their arguments. The operators
// == and != and in, and the access to fields and elements, are charged where they read.
var prices = map[string]price{
	celoperators.Add:           {charge: copied},
	celoperators.Less:          {charge: comparedTexts},
	celoperators.LessEquals:    {charge: comparedTexts},
	celoperators.Greater:       {charge: comparedTexts},
	celoperators.GreaterEquals: {charge: comparedTexts},

	"size": {charge: scanned}, "startsWith": {charge: comparedTexts}, "endsWith": {charge: comparedTexts}, "trim": {charge: scanned}, "contains": {charge: scanned},
	"string": {charge: copied}, "bytes": {charge: copied}, "bool": {charge: copied}, "int": {charge: copied}, "uint": {charge: copied},
	"double": {charge: copied}, "timestamp": {charge: copied}, "duration": {charge: copied},
	"charAt": {charge: picked}, "substring": {charge: cut}, "lowerAscii": {charge: recoded}, "upperAscii": {charge: recoded},
	"strings.quote": {charge: recoded},
	"reverse":       {charge: reversed, always: true},
	"indexOf":       {charge: searched, always: true}, "lastIndexOf": {charge: searched, always: true},
	"replace": {charge: replaced, always: true}, "split": {charge: splitText, always: true},
	"join": {charge: joined, always: true}, "format": {charge: formatted, always: true},

	"matches": {charge: matched, always: true}, "regex.extract": {charge: matched, always: true},
	"regex.extractAll": {charge: extracted, always: true}, "regex.replace": {charge: regexReplaced, always: true},

	"math.abs": {charge: scanned}, "math.sign": {charge: scanned}, "math.ceil": {charge: scanned}, "math.floor": {charge: scanned},
	"math.round": {charge: scanned}, "math.trunc": {charge: scanned}, "math.isNaN": {charge: scanned}, "math.isInf": {charge: scanned},
	"math.isFinite": {charge: scanned}, "math.sqrt": {charge: scanned}, "decimal": {charge: scanned}, "math.divide": {charge: scanned, always: true},
	"sum": {charge: summed, always: true}, "merge": {charge: mergedMaps, always: true},

	"slice": {charge: listed, always: true}, "flatten": {charge: flattened, always: true}, "sort": {charge: sorted, always: true},
	"@sortByAssociatedKeys": {charge: sorted, always: true}, "distinct": {charge: distinct, always: true},
	"math.@max": {charge: listed, always: true}, "math.@min": {charge: listed, always: true},
	"sets.contains": {charge: paired, always: true}, "sets.equivalent": {charge: paired, always: true}, "sets.intersects": {charge: paired, always: true},
	"hasAll": {charge: paired, always: true}, "hasAny": {charge: paired, always: true}, "hasOnly": {charge: paired, always: true}, "hasExactly": {charge: paired, always: true},
	mapInsert: {charge: inserted, always: true},
	// Their errors contain an element.
	"optional.unwrap": {charge: unwrapped, always: true}, "unwrapOpt": {charge: unwrapped, always: true},
	"hasValue": {charge: comparedValue, always: true},

	"getDate": {charge: zoned, always: true}, "getDayOfMonth": {charge: zoned, always: true}, "getDayOfWeek": {charge: zoned, always: true},
	"getDayOfYear": {charge: zoned, always: true}, "getFullYear": {charge: zoned, always: true}, "getHours": {charge: zoned, always: true},
	"getMilliseconds": {charge: zoned, always: true}, "getMinutes": {charge: zoned, always: true}, "getMonth": {charge: zoned, always: true},
	"getSeconds": {charge: zoned, always: true},
	"plus":       {charge: calendar, always: true}, "startOf": {charge: calendar, always: true}, "strftime": {charge: formattedTime, always: true},
}

// textSize is the size in bytes of a text, or of a value that CEL does not know; 0 for any
// other value.
func textSize(v ref.Val) int {
	switch v := v.(type) {
	case types.String:
		return len(v)
	case types.Bytes:
		return len(v)
	case opaque:
		return len(v.raw.Value)
	}
	return 0
}

// maxElements is more than any list of a document has. A list that was added to itself again
// and again can have so many that their number overflows.
const maxElements = 1 << 24

// listSize is the number of elements of a list, at most [maxElements]; 0 for any other value.
func listSize(v ref.Val) int {
	l, ok := v.(traits.Lister)
	if !ok {
		return 0
	}
	if n, _ := l.Size().(types.Int); n >= 0 && n < maxElements {
		return int(n)
	}
	return maxElements
}

// sortWork is the work to sort one of n elements.
func sortWork(n int) int { return bits.Len(uint(n)) * fieldWork }

// weigh bounds the size of a value's text in bytes, with everything that it contains.
func weigh(m *meter, v ref.Val) int {
	const other, perByte = 64, 4 // a number of one byte has up to four digits and a comma
	m.spend(fieldWork, 0)
	switch v := v.(type) {
	case types.String:
		return len(v) + 2
	case types.Bytes:
		return len(v) + 2
	case opaque:
		return other + perByte*len(v.raw.Value)
	case *documentValue:
		return other + perByte*len(v.raw)
	case *arrayValue:
		return other + perByte*v.bytes()
	case traits.Mapper:
		n := other
		for _, e := range sortedEntries(v, m) {
			n += weigh(m, e.key) + weigh(m, e.value)
		}
		return n
	case traits.Lister:
		n := other
		for elements := v.Iterator(); elements.HasNext() == types.True; {
			n += weigh(m, elements.Next())
		}
		return n
	case *types.Optional:
		if v.HasValue() {
			return other + weigh(m, v.GetValue())
		}
	}
	return other
}

// copied is the price of a function whose result is a text of the size of its texts.
func copied(m *meter, a, b, _ ref.Val) {
	n := textSize(a) + textSize(b)
	m.spend(n, n)
}

// recoded is the price of a function that converts a text to code points and back.
func recoded(m *meter, a, _, _ ref.Val) {
	n := textSize(a)
	m.borrow(n*runeWork, n*runeMemory)
	m.spend(0, n)
}

// cut is the price of a function that returns a part of a text, between code points.
func cut(m *meter, a, from, to ref.Val) {
	n := textSize(a)
	m.borrow(n*runeWork, n*runeMemory)
	first, _ := from.(types.Int)
	if last, ok := to.(types.Int); ok && last >= first && int(last-first) < n/utf8.UTFMax {
		n = int(last-first) * utf8.UTFMax
	}
	m.spend(0, n)
}

// picked is the price of charAt.
func picked(m *meter, a, _, _ ref.Val) {
	n := textSize(a)
	m.borrow(n*runeWork, n*runeMemory)
}

// scanned is the price of a function that reads its texts once.
func scanned(m *meter, a, b, _ ref.Val) { m.spend(textSize(a)+textSize(b), 0) }

func comparedTexts(m *meter, a, b, _ ref.Val) { m.compared(textSize(a), textSize(b)) }

// reversed is the price of reverse, which takes a text or a list.
func reversed(m *meter, a, _, _ ref.Val) {
	recoded(m, a, nil, nil)
	listed(m, a, nil, nil)
}

// searched is the price of a search that begins again at each code point.
func searched(m *meter, a, b, _ ref.Val) {
	n, sought := textSize(a), textSize(b)
	m.borrow(n*(sought+runeWork), (n+sought)*runeMemory)
}

func replaced(m *meter, a, b, c ref.Val) {
	text, _ := a.(types.String)
	old, _ := b.(types.String)
	m.spend(len(text)+len(old), 0)
	matches := strings.Count(string(text), string(old))
	n := len(text) + matches*textSize(c)
	m.spend(n+matches*fieldWork, n)
}

func splitText(m *meter, a, b, _ ref.Val) {
	text, _ := a.(types.String)
	separator, _ := b.(types.String)
	m.spend(len(text)+len(separator), 0)
	parts := strings.Count(string(text), string(separator)) + 1
	m.spend(parts*fieldWork, parts*partMemory)
}

func joined(m *meter, a, b, _ ref.Val) {
	n := weigh(m, a) + listSize(a)*textSize(b)
	m.spend(n, n)
	m.borrow(0, n)
}

func formatted(m *meter, a, b, _ ref.Val) {
	text, _ := a.(types.String)
	m.spend(len(text), 0)
	n := strings.Count(string(text), "%")*formattedMemory + len(text) + weigh(m, b)
	// A value inside others is copied once for each of them.
	m.borrow(2*n, 2*n)
	m.spend(0, n)
}

// matched is the price of a search for a regular expression.
func matched(m *meter, a, b, _ ref.Val) { m.spend(textSize(a)*instructions(m, b), 0) }

// extracted is the price of finding all matches of a regular expression.
func extracted(m *meter, a, b, c ref.Val) {
	matched(m, a, b, c)
	m.spend(0, textSize(a)*matchMemory)
}

func regexReplaced(m *meter, a, b, c ref.Val) {
	matched(m, a, b, c)
	m.borrow(0, textSize(a)*matchMemory)
	text, _ := a.(types.String)
	pattern, _ := b.(types.String)
	replacement, _ := c.(types.String)
	if len(text)*len(replacement) <= largeMemory {
		m.spend(0, len(text)*len(replacement))
		return // at most one match for each byte
	}
	found, err := regexp.Compile(string(pattern))
	if err != nil {
		return // the call reports it
	}
	matches := len(found.FindAllStringIndex(string(text), -1))
	// Each reference to a group can add the text of a match.
	n := len(text) + matches*len(replacement) + strings.Count(string(replacement), `\`)*len(text)
	m.spend(n, n)
	m.borrow(0, n)
}

// instructions bounds the number of instructions of a regular expression, and charges its
// compilation.
func instructions(m *meter, pattern ref.Val) int {
	text, _ := pattern.(types.String)
	m.borrow(len(text)*patternWork, len(text)*patternMemory)
	parsed, err := syntax.Parse(string(text), syntax.Perl)
	if err != nil {
		return 1 // the call reports it
	}
	n := instructionsOf(parsed)
	m.borrow(n*instructionWork, n*instructionMemory)
	return n
}

// instructionsOf bounds the number of instructions of a parsed regular expression. The
// parser limits repetitions, so the number fits an int.
func instructionsOf(r *syntax.Regexp) int {
	n := 2 + len(r.Rune)
	for _, sub := range r.Sub {
		n += instructionsOf(sub)
	}
	if r.Op == syntax.OpRepeat {
		n *= max(1, r.Min, r.Max)
	}
	return n
}

// listed is the price of a function that copies a list.
func listed(m *meter, a, b, _ ref.Val) {
	n := listSize(a) + listSize(b)
	m.spend(n*fieldWork, n*elementMemory)
}

// unwrapped is the price of a function that copies the values of a list of optionals. If an
// element is not optional, its error contains the element.
func unwrapped(m *meter, a, _, _ ref.Val) {
	listed(m, a, nil, nil)
	n := weigh(m, a)
	m.borrow(n, n)
}

// comparedValue is the price of the comparison with the value of an optional.
func comparedValue(m *meter, _, b, _ ref.Val) {
	if b != nil {
		m.spend(weigh(m, b)/bytesPerWork, 0)
	}
}

// flattened is the price of flatten. The lists inside count at any depth.
func flattened(m *meter, a, _, _ ref.Val) {
	n := leaves(m, a)
	m.spend(n*fieldWork, n*elementMemory)
}

// leaves counts the values in a list of lists.
func leaves(m *meter, v ref.Val) int {
	m.spend(fieldWork, 0)
	l, ok := v.(traits.Lister)
	if !ok {
		return 1
	}
	n := 1
	for elements := l.Iterator(); elements.HasNext() == types.True; {
		n += leaves(m, elements.Next())
	}
	return n
}

// sorted is the price of sort and sortBy, which compare all pairs of keys at most
// n·log(n) times.
func sorted(m *meter, a, b, c ref.Val) {
	listed(m, a, b, c)
	keys := b
	if keys == nil {
		keys = a
	}
	n := listSize(keys)
	m.spend(n*sortWork(n)*2+weigh(m, keys)*bits.Len(uint(n))/bytesPerWork, n*elementMemory)
	if hasDecimal(keys) {
		m.spend(n*bits.Len(uint(n))*decimalWork, 0)
	}
}

// decimalWork is the work to compare or add a Decimal128.
const decimalWork = 500

// hasDecimal reports whether a list has a Decimal128. The caller has charged more than the
// search takes.
func hasDecimal(v ref.Val) bool {
	if a, ok := v.(*arrayValue); ok && a.list == nil {
		for _, element := range readFields(a.raw.Value).all() {
			if element.Type == bson.TypeDecimal128 {
				return true
			}
		}
		return slices.ContainsFunc(a.more, func(v bson.RawValue) bool { return v.Type == bson.TypeDecimal128 })
	}
	l, ok := v.(traits.Lister)
	if !ok {
		return false
	}
	for elements := l.Iterator(); elements.HasNext() == types.True; {
		if isDecimal(elements.Next()) {
			return true
		}
	}
	return false
}

// summed is the price of sum.
func summed(m *meter, a, _, _ ref.Val) {
	const (
		perElement = 200
		// exponents is how many exponents Decimal128s have. The sum can have as many digits.
		exponents = 12_288
		// perExponent is the work to multiply such a sum by ten.
		perExponent = 2_000
	)
	n := listSize(a)
	m.spend(n*perElement, n*elementMemory)
	if hasDecimal(a) {
		m.spend(n*decimalWork+min(n, exponents)*perExponent, 0)
	}
}

// distinct is the price of a function that compares each element of a list with the others.
func distinct(m *meter, a, _, _ ref.Val) { paired(m, a, a, nil) }

// paired is the price of a function that compares each element of a list with each of
// another, in both directions.
func paired(m *meter, a, b, _ ref.Val) {
	n, other := listSize(a), listSize(b)
	m.spend(n*other*fieldWork, (n+other)*elementMemory)
	m.spend((n*weigh(m, b)+other*weigh(m, a))/bytesPerWork, 0)
}

// inserted is the price of adding entries to the result of a loop.
func inserted(m *meter, _, b, _ ref.Val) {
	m.hashed(b)
	if entries, ok := b.(traits.Mapper); ok {
		for _, e := range sortedEntries(entries, m) {
			m.hashed(e.key)
		}
	}
}

// zoned is the price of a function that takes a time zone.
func zoned(m *meter, _, zone, _ ref.Val) {
	if zone != nil {
		m.spend(zoneWork+textSize(zone), zoneMemory+textSize(zone))
	}
}

// calendar is the price of a function that computes by the clocks of a zone. Its last argument
// may be the zone.
func calendar(m *meter, _, _, _ ref.Val) { m.spend(zoneWork, zoneMemory) }

// formattedTime is the price of strftime.
func formattedTime(m *meter, t, format, _ ref.Val) {
	const perByte, workPerByte = 2, 100 // %Y has two bytes and becomes four
	calendar(m, t, nil, nil)
	m.spend(textSize(format)*workPerByte, textSize(format)*perByte)
}

// mergedMaps is the price of merge, which sorts the entries of both maps.
func mergedMaps(m *meter, a, b, _ ref.Val) {
	for _, v := range [2]ref.Val{a, b} {
		from, ok := v.(traits.Mapper)
		if !ok {
			return // the call reports it
		}
		for _, e := range sortedEntries(from, m) {
			m.spend(fieldWork, elementMemory)
			m.hashed(e.key)
		}
	}
}
