package cli

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// collector is a kong mapper that records the problem of a value and lets kong continue, so
// that every problem is found. The value gets its default instead.
type collector struct {
	kong.Mapper
	parser *parser
}

// Decode implements [kong.Mapper].
func (c collector) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	next := ctx.Scan.Peek()
	if c.parser.source == fromDeclaration {
		return c.Mapper.Decode(ctx, target)
	}
	if !next.IsValue() && !ctx.Value.IsBool() && !ctx.Value.IsCounter() {
		c.parser.lacksValue(ctx.Value)
		return c.fallBack(ctx.Value, target)
	}
	text := fmt.Sprint(next.Value)
	if text == "" && c.parser.source == fromArguments && !hasVariable(ctx.Value) && !ctx.Value.IsBool() {
		ctx.Scan.Pop()
		c.parser.emptyValue(ctx.Value)
		return c.fallBack(ctx.Value, target)
	}
	wrong := ""
	if mayBeSecret(text) {
		c.parser.doubtful = append(c.parser.doubtful, text, strings.TrimSpace(text))
	}
	if err := c.Mapper.Decode(ctx, target); err != nil {
		wrong = mismatch(ctx.Value, text, err)
	} else if next.IsValue() {
		wrong = notAllowed(ctx.Value, text)
	}
	if wrong == "" && isSetting(ctx.Value) && isConnectionString(text) {
		wrong = "which looks like a connection string: a secret in this setting would be printed, so it is not used"
	}
	if wrong == "" {
		// A line break behind a secret usually comes from echo. Files are read without it too.
		if ctx.Value.Tag.Has("secret") && target.Kind() == reflect.String {
			target.SetString(strings.TrimSpace(target.String()))
		}
		return nil
	}
	c.parser.wrongValue(ctx.Value, text, wrong)
	return c.fallBack(ctx.Value, target)
}

// isSetting reports whether the value is a setting that the service prints. Services redact
// the settings with the tag secret, and check those with the tag url themselves.
func isSetting(value *kong.Value) bool {
	return hasVariable(value) && !value.Tag.Has("secret") && !value.Tag.Has("url")
}

// hasVariable reports whether the value can come from the environment.
func hasVariable(value *kong.Value) bool { return value.Flag != nil && len(value.Flag.Envs) > 0 }

// fallBack sets a value to its default.
func (c collector) fallBack(value *kong.Value, target reflect.Value) error {
	target.SetZero()
	if !value.HasDefault {
		return nil
	}
	scan := kong.ScanFromTokens(kong.Token{Type: kong.FlagValueToken, Value: value.Default})
	return c.Mapper.Decode(&kong.DecodeContext{Value: value, Scan: scan}, target)
}

// notAllowed returns the problem of a value that is not in kong's enum tag; empty if there
// is none.
func notAllowed(value *kong.Value, text string) string {
	if value.Enum == "" {
		return ""
	}
	allowed := value.EnumSlice()
	given := []string{text}
	if value.IsSlice() {
		given = strings.Split(text, string(value.Tag.Sep))
	}
	for _, one := range given {
		if !slices.Contains(allowed, one) {
			return "unknown: use one of " + strings.Join(allowed, ", ")
		}
	}
	return ""
}

// mismatch explains to an operator why a value does not fit the flag's type.
func mismatch(value *kong.Value, text string, err error) string {
	t := value.Target.Type()
	if t.Kind() == reflect.Pointer { // nil means unset
		t = t.Elem()
	}
	if t == reflect.TypeFor[time.Time]() {
		return "not a time of RFC 3339: write it with its zone, such as 2026-03-01T00:00:00Z"
	}
	if reader, ok := reflect.New(t).Interface().(encoding.TextUnmarshaler); ok {
		// The type's own error explains best.
		if err := reader.UnmarshalText([]byte(text)); err != nil {
			return err.Error()
		}
	}
	if t == reflect.TypeFor[time.Duration]() {
		return "not a duration: write a number with its unit, such as 500ms, 15s or 2m"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "neither true nor false: use one of them"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return fmt.Sprintf("not a whole number of %d bits: write digits only", t.Bits())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return fmt.Sprintf("not a whole number of %d bits from 0: write digits only", t.Bits())
	case reflect.Float32, reflect.Float64:
		return "not a number: write digits, with a point if needed"
	}
	return err.Error()
}
