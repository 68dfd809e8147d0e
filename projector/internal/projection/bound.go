package projection

import (
	"fmt"
	"math/bits"
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// bound charges a call before it is made, from its arguments alone. Absent arguments are nil.
// It must not read further than it charges. A call that is charged too much parks an event that
// could be applied; one that is charged too little lets an event stop its neighbours.
type bound func(m *meter, a, b, c ref.Val)

const (
	// partMemory is the memory of an element of a list of texts.
	partMemory = 32
	// formattedMemory bounds the memory of one formatted number, and maxPrecision its digits
	// after the point.
	formattedMemory = maxPrecision + 400
	maxPrecision    = 1000
	// maxRange bounds lists.range.
	maxRange = 10_000
	// matchMemory is the memory of a match of a regular expression.
	matchMemory = 96
	// maxPattern bounds a regular expression that is not constant, in bytes. instructionMemory
	// and instructionWork are spent for each instruction of its program.
	maxPattern                         = 1000
	instructionMemory, instructionWork = 200, 500
)

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

// listSize is the number of elements of a list; 0 for any other value.
func listSize(v ref.Val) int {
	l, ok := v.(traits.Lister)
	if !ok {
		return 0
	}
	n, _ := l.Size().(types.Int)
	return int(n)
}

// sortWork is the work to sort one of n elements.
func sortWork(n int) int { return bits.Len(uint(n)) * fieldWork }

// weigh bounds the size of a value's text in bytes, with everything that it contains.
func weigh(m *meter, v ref.Val) int {
	const other, perByte = 64, 4 // a number of one byte has up to four digits and a comma
	m.spend(fieldWork, 0)
	switch v := v.(type) {
	case types.String, types.Bytes:
		return textSize(v) + 2
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

// parsed bounds json. A text of many short values, such as 1,1,1, needs up to eleven bytes of BSON
// for two of its own.
func parsed(m *meter, a, _, _ ref.Val) { m.spend(textSize(a)*jsonWork, textSize(a)*jsonMemory) }

const jsonWork, jsonMemory = 8, 8

// copiedMemory is how much memory an element takes in a copy of a list.
const copiedMemory = 16

// added bounds the sum of two texts or lists. Adding to the result of a loop of CEL copies nothing.
func added(m *meter, a, b, _ ref.Val) {
	n := textSize(a) + textSize(b)
	m.spend(n/bytesPerWork, n)
	if _, inPlace := a.(traits.MutableLister); !inPlace {
		n := listSize(a) + listSize(b)
		m.spend(n*fieldWork, n*copiedMemory)
	}
}

func ranged(m *meter, a, _, _ ref.Val) {
	if n, _ := a.(types.Int); n > 0 && n <= maxRange {
		m.spend(0, int(n)*elementMemory)
	}
}

// runeWork and runeMemory are spent for each byte of a text that is converted to code points.
const runeWork, runeMemory = 12, 6

// searched bounds a search that begins again at each code point.
func searched(m *meter, a, b, _ ref.Val) { m.spend(textSize(a)*(textSize(b)+runeWork), 0) }

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
	m.spend(n, 2*n)
}

func formatted(m *meter, a, b, _ ref.Val) {
	text, _ := a.(types.String)
	m.spend(len(text), 0)
	n := strings.Count(string(text), "%")*formattedMemory + len(text) + weigh(m, b)
	// A value inside others is copied once for each of them.
	m.spend(2*n, 2*n)
}

// matched bounds the search for a regular expression.
func matched(m *meter, a, b, _ ref.Val) { m.spend(textSize(a)*instructions(m, b), 0) }

// extracted bounds the search for all matches.
func extracted(m *meter, a, b, c ref.Val) {
	matched(m, a, b, c)
	m.spend(0, textSize(a)*matchMemory)
}

func regexReplaced(m *meter, a, b, c ref.Val) {
	matched(m, a, b, c)
	text, _ := a.(types.String)
	pattern, _ := b.(types.String)
	replacement, _ := c.(types.String)
	n := len(text) * len(replacement) // at most one match for each byte
	if found, err := regexp.Compile(string(pattern)); n > largeMemory && err == nil {
		m.spend(0, len(text)*matchMemory)
		matches := len(found.FindAllStringIndex(string(text), -1))
		// Each reference to a group can add the text of a match.
		n = matches*len(replacement) + strings.Count(string(replacement), `\`)*len(text)
	}
	m.spend(n, 2*(n+len(text)))
}

// instructions is the number of instructions of a regular expression that is not constant. It
// charges its compilation.
func instructions(m *meter, pattern ref.Val) int {
	text, _ := pattern.(types.String)
	if len(text) > maxPattern {
		m.refuse(fmt.Errorf("a regular expression has at most %d bytes, and this one has %d", maxPattern, len(text)))
	}
	n, err := types.RegexProgramSize(string(text))
	if err != nil {
		return 1 // the call reports it
	}
	m.spend(n*instructionWork, n*instructionMemory)
	return n
}

// listed bounds a function that visits or copies a list, or the code points of a text.
func listed(m *meter, a, b, _ ref.Val) {
	n := listSize(a) + listSize(b)
	m.spend(n*fieldWork+textSize(a)*runeWork, n*elementMemory+textSize(a)*runeMemory)
}

// copied bounds a function that copies values at any depth of a list, also into an error.
func copied(m *meter, a, _, _ ref.Val) {
	listed(m, a, nil, nil)
	n := weigh(m, a)
	m.spend(n, n)
}

// sorted bounds sort and sortBy, which compare all pairs of keys at most n·log(n) times.
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

// hasDecimal reports whether a list has a Decimal128. The caller has charged more than the
// search takes.
func hasDecimal(v ref.Val) bool {
	l, ok := v.(traits.Lister)
	return ok && slices.ContainsFunc(elementsOf(l), isDecimal)
}

// summed bounds sum.
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

// distinct bounds a function that compares each element of a list with the others.
func distinct(m *meter, a, _, _ ref.Val) { paired(m, a, a, nil) }

// paired bounds a function that compares each element of a list with each of another, in both
// directions.
func paired(m *meter, a, b, _ ref.Val) {
	n, other := listSize(a), listSize(b)
	m.spend(n*other*fieldWork, (n+other)*elementMemory)
	m.spend((n*weigh(m, b)+other*weigh(m, a))/bytesPerWork, 0)
}

// inserted bounds merge, which sorts the entries of maps, and the adding of entries to the
// result of a loop. The first map of both is not read: merge charges it by itself.
func inserted(m *meter, _, b, _ ref.Val) {
	m.hashed(b)
	entries(m, b)
}

func mergedMaps(m *meter, a, b, _ ref.Val) {
	entries(m, a)
	entries(m, b)
}

// entries charges the sorting and hashing of a map's entries.
func entries(m *meter, v ref.Val) {
	if from, ok := v.(traits.Mapper); ok {
		for _, e := range sortedEntries(from, m) {
			m.spend(fieldWork, elementMemory)
			m.hashed(e.key)
		}
	}
}
