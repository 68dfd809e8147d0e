package projection

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	celop "cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/penstock-cdc/penstock/pkg/similar"
)

// noClock is the remedy for names of a clock.
const noClock = "an expression has no clock, because a rebuild must give the same result: timestamp is when the event happened. Store the time, and let the reader compare it with the present"

// otherNames has, for names that other languages have, what to write in CEL.
var otherNames = func() map[string]string {
	names := map[string]string{}
	for _, n := range []struct{ names, remedy string }{
		{"now today currentTime currentDate sysdate", noClock},
		{"uuid random rand", "an expression has no randomness, because a rebuild must give the same result: aggregateId and eventId identify an event"},
		{"len length count", "write size(x)"},
		{"isEmpty empty", "write size(x) == 0"},
		{"toUpperCase toUpper upper uppercase", "write text.upperAscii()"},
		{"toLowerCase toLower lower lowercase", "write text.lowerAscii()"},
		{"round", "write math.round(x), or math.round(x, 2) for two places"},
		{"divide quotient", "write a / b, or math.divide(a, b, 2) for two places"},
		{"Decimal128 NumberDecimal toDecimal", "write decimal('12.50')"},
		{"average avg mean", "write list.sum() / size(list), with double(…) around one of them"},
		{"fold accumulate inject", "write list.reduce(total, 0, e, total + e.price)"},
		{"sum", "write list.sum(), or list.sum(e, e.price)"},
		{"reduce", "it takes the result, its initial value, the element and the next result, as in list.reduce(total, 0, e, total + e.price)"},
		{"assign extend mergeObjects", "write a.merge(b)"},
		{"abs", "write math.abs(x)"},
		{"ceil ceiling", "write math.ceil(x)"},
		{"floor", "write math.floor(x)"},
		{"sqrt", "write math.sqrt(x)"},
		{"min least", "write math.least(a, b), or math.least(list)"},
		{"max greatest", "write math.greatest(a, b), or math.greatest(list)"},
		{"toString str text", "write string(x)"},
		{"parseInt toInt integer long", "write int(x)"},
		{"parseFloat toFloat toDouble float number", "write double(x)"},
		{"date datetime toDate parseDate", "write timestamp('2026-01-31T12:00:00Z'), or timestamp(text)"},
		{"getYear year", "write time.getFullYear()"},
		{"month", "write time.strftime('%Y-%m'), or time.getMonth(), which is 0 in January"},
		{"day", "write time.getDate() for the day of the month"},
		{"addDays addMonths addYears dateAdd", "write timestamp.plus(1, 'month', 'Europe/Berlin'), with day, week, month, quarter or year"},
		{"truncate trunc dateTrunc startOfDay startOfMonth", "write timestamp.startOf('month', 'Europe/Berlin'), or math.trunc(x) of a number"},
		{"dateToString toIsoString toISOString isoformat formatTime", "write timestamp.strftime('%Y-%m-%d', 'Europe/Berlin'), or string(timestamp)"},
		{"includes", "write x in list, or text.contains('…')"},
		{"some any", "write list.exists(e, e.price > 10)"},
		{"every", "write list.all(e, e.price > 10)"},
		{"find", "write list.filter(e, e.price > 10)[?0].orValue(null)"},
		{"map filter all exists exists_one", "it takes a variable and an expression, as in list.map(e, e.price)"},
		{"push append add", "write list + [x]"},
		{"concat", "join texts and lists with +"},
		{"keys", "write map.map(k, k)"},
		{"values", "write map.map(k, map[k])"},
		{"part", "a rule of a view sees its part as state; part is for key, each and totals"},
		{"element", "only key and totals of a view see an element of each"},
		{"coalesce ifNull isNull default", "write payload.?field.orValue('default'), or x == null"},
	} {
		for name := range strings.FieldsSeq(n.names) {
			names[name] = n.remedy
		}
	}
	return names
}()

// undeclared says what to write instead of a name that CEL does not have.
func (e *environment) undeclared(name string) string {
	if remedy, ok := otherNames[name]; ok {
		if strings.HasPrefix(remedy, "it ") {
			return name + ": " + remedy
		}
		return "there is no " + name + ": " + remedy
	}
	candidates := sortedKeys(variables)
	for function := range e.cel.Functions() {
		if !strings.ContainsAny(function, "@_") {
			candidates = append(candidates, function)
		}
	}
	slices.Sort(candidates)
	meant := similar.Meant(name, candidates)
	if meant == "" && slices.Contains(e.state, varPart) {
		return fmt.Sprintf("there is no %[1]s: write part.%[1]s for the field of the part, or '%[1]s' for the text", name)
	}
	return fmt.Sprintf("undeclared reference to '%s'%s", name, meant)
}

// celMessages are CEL's messages that need other words or a remedy, with those.
var celMessages = []struct {
	cel  *regexp.Regexp
	says string
}{
	{regexp.MustCompile(`^reserved identifier: if$`), "there is no if: write condition ? a : b"},
	{regexp.MustCompile(`^invalid timestamp argument$`), "the time is not valid: write timestamp('2026-01-31T12:00:00Z'), with a time of day and Z or an offset such as +01:00"},
	{regexp.MustCompile(`^type conversion error from 'bson.OlderUUID' to 'string'$`), aboutOlderUUIDs},
	{regexp.MustCompile(`^type conversion error from '(?:bson\.)?(\w+)' to '(\w+)'$`), "$2() cannot convert this $1: it has another form, or is out of range"},
	{regexp.MustCompile(`^type conversion error from '\w+' to 'google.protobuf.Duration'$`), errDurationText.Error()},
	{regexp.MustCompile(`^timestamp overflow$`), "the time is not between the years 1 and 9999: timestamp(n) takes seconds, so of milliseconds write timestamp(n / 1000)"},
	{regexp.MustCompile(`^(?s)(invalid RFC 3339 timestamp .*)$`), "$1 (write a time as 2026-01-31T12:00:00Z, with a time of day and Z or an offset such as +01:00)"},
	{regexp.MustCompile(`^expression of type '(.*)' cannot be range of a comprehension.*$`), "a loop runs over a list or a map, and not over $1"},
	{regexp.MustCompile(`^got '(?:types\.)?Null', expected iterable type$`), "the loop runs over null: give a list that may be absent a default, such as payload.?lines.orValue([]), and write x == null ? [] : x for one that may be null"},
	{regexp.MustCompile(`^got '(?:types\.)?(\w+)', expected iterable type$`), "the loop runs over $1: a loop runs over a list or a map"},
	{regexp.MustCompile(`^unsupported index type '(?:types\.)?\w+' in list$`), "a list has positions and no fields: write list[0] for an element, size(list) for its length, list.map(e, e.name) for a field of all elements"},
	{regexp.MustCompile(`^(cannot slice\(.*\)), negative indexes not supported$`), "$1: positions count from the start. The last three elements are list.slice(math.greatest(0, size(list) - 3), size(list))"},
	{regexp.MustCompile(`^(cannot slice\(.*\), list is length \d+)$`), "$1: bound the end, as in list.slice(0, math.least(3, size(list)))"},
	{regexp.MustCompile(`^(cannot slice\(.*\)), start index .*$`), "$1: the start is after the end"},
	{regexp.MustCompile(`^(index out of bounds: .*)$`), "$1 (if an element can be absent, read it as list[?0], with .orValue(…) for a default)"},
	{regexp.MustCompile(`^(index out of range: .*)$`), "$1 (bound it, as in text.substring(0, math.least(3, size(text))))"},
	{regexp.MustCompile(`^error during formatting: .* clause can only be used on .*, was given bson.Decimal128$`), "format writes a Decimal128 only as a text: write '%s'.format([string(math.round(x, 2))])"},
	{regexp.MustCompile(`^list elements must have the same type$`), "the list cannot be sorted, because its elements have different types: convert them first, as in list.map(e, double(e)).sort()"},
	{regexp.MustCompile(`^list elements must be comparable$`), "the list cannot be sorted, because its elements have no order: sort documents by a field, as in list.sortBy(e, e.price)"},
	{regexp.MustCompile(`^(?s).*hash of unhashable type.*$`), errKeyType},
	{regexp.MustCompile(`^(?s)invalid qualifier type.*$`), errIndexType},
	{regexp.MustCompile(`^(?s)(no such key.*)$`), "$1 (if a field can be absent, read it as .?field, with .orValue(…) for a default)"},
	{regexp.MustCompile(`^no such overload$`), "a value has a type that does not fit: convert it, or give a field that may be null or absent a default with .?field.orValue(…); && || ! and ? : take a bool"},
}

// CEL's own errors about keys name types of Go.
const (
	errKeyType   = "a key of a map has a type that keys cannot have: convert an ObjectId, a UUID or a Decimal128 with string()"
	errIndexType = "the value in the brackets has a type that keys and indexes cannot have: convert an ObjectId, a UUID or a Decimal128 with string()"
)

// noMatch and noSuchOverload are CEL's messages for operands and arguments of a wrong type,
// before and during the evaluation.
var (
	noMatch        = regexp.MustCompile(`^found no matching overload for '(.*?)' applied to '(?:(.*)\.)?\((.*)\)'$`)
	noSuchOverload = regexp.MustCompile(`^no such overload: ([\w.@]+)(?:\((.*)\))?$`)
)

// plain says a message of CEL in plain words, with the remedy. It returns an unknown message
// unchanged.
func plain(message string) string {
	if m := noMatch.FindStringSubmatch(message); m != nil {
		operands := splitTypes(m[3])
		if m[2] != "" {
			operands = append([]string{m[2]}, operands...)
		}
		return refusal(m[1], operands...)
	}
	if m := noSuchOverload.FindStringSubmatch(message); m != nil {
		return refusal(m[1], splitTypes(m[2])...)
	}
	for _, known := range celMessages {
		if known.cel.MatchString(message) {
			return known.cel.ReplaceAllString(message, known.says)
		}
	}
	return message
}

// splitTypes splits CEL's list of types, and names each in plain words.
func splitTypes(list string) (names []string) {
	depth, start := 0, 0
	for i, r := range list + "," {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 && i > start {
				names = append(names, strings.TrimSpace(list[start:i]))
			}
			if depth == 0 {
				start = i + 1
			}
		}
	}
	return names
}

// plainTypes has the names of types that CEL names differently.
var plainTypes = map[string]string{
	"google.protobuf.Timestamp": "timestamp", "google.protobuf.Duration": "duration", "null_type": "null",
	"bson.Decimal128": "Decimal128", "bson.ObjectId": "ObjectId", "bson.UUID": "UUID", "bson.OlderUUID": "an older UUID", "bson.Value": "a value of another BSON type",
	"dyn": "any value", "optional_type": "optional",
}

// plainNumbers are the types of numbers.
var plainNumbers = []string{"int", "double", "Decimal128"}

func plainType(name string) string {
	if inner, ok := strings.CutPrefix(name, "wrapper("); ok {
		name = strings.TrimSuffix(inner, ")")
	}
	name, _, _ = strings.Cut(name, "(")
	if plain, ok := plainTypes[name]; ok {
		return plain
	}
	return name
}

// plainFunctions has the names of functions that CEL names differently.
var plainFunctions = map[string]string{
	celop.Conditional: "? :", celop.Index: "[ ]", celop.OptIndex: "[? ]", "math.@max": "math.greatest", "math.@min": "math.least",
	"@sortByAssociatedKeys": "sortBy", celop.In: "in",
}

// refusal says that a function or operator does not take operands of these types, and the
// remedy.
func refusal(function string, operands ...string) string {
	for i := range operands {
		operands[i] = plainType(operands[i])
	}
	name, ok := plainFunctions[function]
	if !ok {
		name = strings.Trim(function, "_")
	}
	if function == celop.Conditional && len(operands) == 3 {
		if operands[0] != "bool" && operands[0] != "any value" {
			return fmt.Sprintf("the condition before ? is %s and not bool: compare it, as in x > 0 or x != ''", operands[0])
		}
		return fmt.Sprintf("one of the values after ? is %s and the other %s: convert one, or write dyn(…) around one to store either", operands[1], operands[2])
	}
	refused := "these types"
	if len(operands) > 0 {
		refused = strings.Join(operands, " and ")
	}
	return fmt.Sprintf("%s does not take %s: %s", name, refused, remedy(name, operands))
}

// remedy says what to write instead of an operator or function with operands of these types.
func remedy(name string, operands []string) string {
	has := func(types ...string) bool {
		return slices.ContainsFunc(operands, func(o string) bool { return slices.Contains(types, o) })
	}
	comparing := slices.Contains([]string{"<", "<=", ">", ">=", "==", "!="}, name)
	switch {
	case has("null"):
		return "give a field that may be absent a default, such as payload.?field.orValue(0), and write x == null ? 0 : x for one that may be null"
	case has("optional"):
		return "take the value of an optional with .orValue(…)"
	case has("an older UUID") && name != "uuid":
		return aboutOlderUUIDs
	case slices.Contains([]string{"&&", "||", "!"}, name):
		return "compare the value, as in x > 0 or x != ''"
	case name == "[ ]" && len(operands) > 0 && operands[0] == "list":
		return "write list[0] for an element, list.map(e, e.name) for a field of all elements"
	case (name == "==" || name == "!=") && !slices.ContainsFunc(operands, func(o string) bool { return !slices.Contains(plainNumbers, o) }):
		return "write dyn(…) around one of them to compare the numbers by their values"
	case name == "in" && len(operands) == 2 && operands[1] == "list":
		return "the elements have another type: write dyn(…) around the left side to compare numbers by their values"
	case name == "in":
		return "its right side is a list or a map; a part of a text is found by text.contains('…')"
	case name == "contains", name == "indexOf", name == "lastIndexOf":
		return "it searches a text for a text. An element of a list is found by x in list"
	case name == "join":
		return "it joins texts. Convert other elements, as in list.map(e, string(e)).join(', ')"
	case name == "plus":
		return "it takes a time, a whole number and a unit: convert with timestamp(…) or int(…), as in timestamp(payload.at).plus(int(payload.count), 'months')"
	case name == "format" && has("timestamp"):
		return "write timestamp.strftime('%Y-%m-%d', 'Europe/Berlin')"
	case name == "duration":
		return "write duration(90, 'minutes') or duration('90m')"
	case name == "format":
		return "its argument is a list, as in '%s of %d'.format([name, count])"
	case name == "+" && has("map"):
		return "merge maps with a.merge(b), whose values of b win"
	case name == "+" && !slices.ContainsFunc(operands, func(o string) bool { return o != "list" }):
		return "the elements have different types: write dyn(…) around one of the lists"
	case name == "+" && has("list"):
		return "write list + [x] to append an element"
	case name == "+" && has("string"):
		return "convert the other value with string(…)"
	case (name == "+" || name == "-") && has("timestamp"):
		return "add a duration, such as duration('90m') or duration(3, 'days'); for months, write timestamp.plus(1, 'month')"
	case comparing && has("timestamp"):
		return "write the time as timestamp('2026-01-31T12:00:00Z'), or convert a text with timestamp(…)"
	case has("duration"):
		return "convert the duration to a number of a unit, such as .total('hours')"
	case name == "%":
		return "it takes ints: convert with int(…)"
	case name == "uuid":
		return "it takes a binary of 16 bytes of subtype 3 or 4, and the order of the bytes, as in uuid(payload.id, 'csharpLegacy')"
	case name == "decimal":
		return "it takes a number or a text, as in decimal('12.50')"
	case name == "sum":
		return "write list.sum() for a list of numbers, or list.sum(e, e.price)"
	case name == "merge":
		return "it takes two maps, as in state.?totals.orValue({}).merge({'a': 1})"
	case has("string"):
		return "convert the text with int(…), double(…) or timestamp(…)"
	}
	return "convert a value, or give a field that may be null or absent a default with .?field.orValue(…)"
}

// noOverload is the error of an operator for operands of wrong types.
func noOverload(operator string, operands ...ref.Val) ref.Val {
	names := make([]string, len(operands))
	for i, v := range operands {
		if types.IsUnknownOrError(v) {
			return v
		}
		names[i] = v.Type().TypeName()
	}
	return types.NewErr("%s", refusal(operator, names...))
}

// checked returns the result of an operator, or its error with the remedy if the types of the
// operands are wrong.
func checked(operator string, a, b, result ref.Val) ref.Val {
	err, ok := result.(*types.Err)
	if !ok {
		return result
	}
	_, time := a.(types.Timestamp)
	_, other := b.(types.Timestamp)
	switch text := err.String(); {
	case text == "no such overload":
		return noOverload(operator, a, b)
	case !strings.Contains(text, "overflow"):
	case time && other:
		return types.WrapErr(errTooFarApart)
	case time || other:
		return types.WrapErr(errTimeRange)
	}
	return result
}

var errTooFarApart = errors.New("the times are more than 290 years apart, which is the longest duration: compare the times, or leave out a time that stands for none, such as 0001-01-01")
