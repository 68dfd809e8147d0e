package projection

import (
	"regexp"
	"strings"
)

// Forms of the errors of CEL's parser. It lists the tokens that it expects by the names of
// its grammar.
var (
	unexpected = regexp.MustCompile(`^Syntax error: (?:mismatched|extraneous|no viable alternative at) input '((?s:.*?))'(?: expecting .*)?$`)
	unknown    = regexp.MustCompile(`^Syntax error: token recognition error at: '((?s:.*))'$`)
	absent     = regexp.MustCompile(`^Syntax error: missing (?:'(.*?)'|.*?) at '((?s:.*))'$`)
)

// endOfExpression is the name that CEL's parser has for the end of an expression.
const endOfExpression = "<EOF>"

// syntaxError says in plain words what CEL's parser refuses.
func syntaxError(message string) string {
	if m := unknown.FindStringSubmatch(message); m != nil {
		switch text := strings.TrimSpace(m[1]); {
		case strings.HasPrefix(text, "'"), strings.HasPrefix(text, `"`):
			return "syntax error: the text " + text + " has no closing quote"
		case text == "=":
			return "syntax error: = is no operator: compare with =="
		default:
			return "syntax error: " + text + " has no meaning in CEL"
		}
	}
	if m := absent.FindStringSubmatch(message); m != nil && m[1] != "" {
		return "syntax error: " + m[1] + " is missing"
	}
	m := unexpected.FindStringSubmatch(message)
	switch {
	case m == nil:
		return message
	case strings.HasSuffix(m[1], endOfExpression):
		return "syntax error: the expression is not complete: a value or a closing bracket is missing at its end"
	case operatorWords[m[1]] != "":
		return "syntax error: " + m[1] + " is no operator: write " + operatorWords[m[1]]
	case constantWords[strings.TrimPrefix(m[1], ".")]:
		word := strings.TrimPrefix(m[1], ".")
		return "syntax error: " + word + " cannot stand here, because it is a word of CEL: write a field of that name in backquotes, such as payload.`" + word + "`"
	default:
		return "syntax error: " + m[1] + " cannot stand here: an operator is missing before it, or a bracket has no pair"
	}
}

// operatorWords has, for operators that other languages write as words, those of CEL.
var operatorWords = map[string]string{"and": "&&", "or": "||", "not": "!"}

// constantWords cannot be names of fields unless they are in backquotes.
var constantWords = map[string]bool{"in": true, "true": true, "false": true, "null": true}
