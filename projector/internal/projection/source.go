package projection

import (
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
)

// canonical returns an expression's source without comments and unnecessary spaces. If the result
// does not compile to the same expression, canonical returns the source unchanged.
func canonical(env *environment, source string, checked *cel.Ast) string {
	collapsed := collapse(source)
	if collapsed == source {
		return source
	}
	compiled, issues := env.compile(collapsed)
	if issues.Err() != nil {
		return source
	}
	x, again := checked.NativeRep(), compiled.NativeRep()
	if !ast.EquivExpr(x.Expr(), again.Expr(), ast.EquivReferences(x.ReferenceMap(), again.ReferenceMap())) {
		return source
	}
	return collapsed
}

// collapse removes comments, and all spaces except one between two words. It does not
// change literals.
func collapse(source string) string {
	var b strings.Builder
	space := false
	for i := 0; i < len(source); {
		c := source[i]
		end := i + 1
		switch {
		case strings.IndexByte(" \t\r\n\f", c) >= 0:
			space, i = true, end
			continue
		case strings.HasPrefix(source[i:], "//"):
			if n := strings.IndexByte(source[i:], '\n'); n >= 0 {
				end = i + n
			} else {
				end = len(source)
			}
			space, i = true, end
			continue
		case c == '"' || c == '\'':
			end = literalEnd(source, i, false)
		case c == '`':
			if n := strings.IndexByte(source[end:], '`'); n >= 0 {
				end += n + 1
			}
		case wordByte(c):
			for end < len(source) && wordByte(source[end]) {
				end++
			}
			if end < len(source) && (source[end] == '"' || source[end] == '\'') {
				end = literalEnd(source, end, strings.ContainsAny(source[i:end], "rR"))
			}
		}
		if space && b.Len() > 0 && touching(b.String()[b.Len()-1]) && touching(c) {
			b.WriteByte(' ')
		}
		b.WriteString(source[i:end])
		space, i = false, end
	}
	return b.String()
}

func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// touching reports whether removing a space next to c could join two tokens into one.
func touching(c byte) bool { return wordByte(c) || strings.IndexByte("\"'`", c) >= 0 }

// literalEnd returns the position after the literal whose first quote is at i.
func literalEnd(source string, i int, raw bool) int {
	quote := source[i : i+1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(source[i:], triple) {
		quote = triple
	}
	for i += len(quote); i < len(source); i++ {
		switch {
		case source[i] == '\\' && !raw:
			i++
		case strings.HasPrefix(source[i:], quote):
			return i + len(quote)
		}
	}
	return len(source)
}
