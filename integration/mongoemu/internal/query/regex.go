package query

import (
	"regexp"
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

// regex matches strings and symbols by pattern, and stored regular expressions that are
// equal to it.
type regex struct {
	re    *regexp.Regexp
	value bsonraw.Value
}

func newRegex(pattern, options string) (*regex, error) {
	flags := ""
	for _, o := range options {
		switch o {
		case 'i', 'm', 's':
			flags += string(o)
		case 'u':
		default:
			return nil, mongoerr.Lacking("the $regex option %q", string(o))
		}
	}
	source := pattern
	if flags != "" {
		source = "(?" + flags + ")" + pattern
	}
	re, err := regexp.Compile(source)
	if err != nil {
		return nil, mongoerr.New(51091, "Regular expression is invalid: %s", err.Error())
	}
	return &regex{re: re, value: bsonraw.Value{
		Type: bsoncore.TypeRegex, Data: bsoncore.AppendRegex(nil, pattern, options),
	}}, nil
}

func regexValue(v bsonraw.Value) (*regex, error) {
	pattern, options := v.Regex()
	return newRegex(pattern, options)
}

func (r *regex) holds(v bsonraw.Value) bool {
	switch v.Type {
	case bsoncore.TypeString, bsoncore.TypeSymbol:
		return r.re.Match(bsonraw.Text(v))
	case bsoncore.TypeRegex:
		return bsonraw.Equal(v, r.value)
	}
	return false
}

func compileRegex(path Path, v bsonraw.Value, siblings []byte) (Node, error) {
	var pattern, options string
	switch v.Type {
	case bsoncore.TypeString:
		pattern = string(bsonraw.Text(v))
	case bsoncore.TypeRegex:
		pattern, options = v.Regex()
	default:
		return nil, mongoerr.New(mongoerr.BadValue, "$regex has to be a string")
	}
	if o, ok := bsonraw.Lookup(siblings, "$options"); ok {
		if o.Type != bsoncore.TypeString {
			return nil, mongoerr.New(mongoerr.BadValue, "$options has to be a string")
		}
		if options != "" {
			return nil, mongoerr.New(51074, "options set in both $regex and $options")
		}
		options = string(bsonraw.Text(o))
	}
	if strings.ContainsRune(pattern, 0) {
		return nil, mongoerr.New(51109, "Regular expression cannot contain an embedded null byte")
	}
	r, err := newRegex(pattern, options)
	if err != nil {
		return nil, err
	}
	return &leaf{path: path, expand: true, test: r.holds}, nil
}
