package collation

import (
	"slices"
	"sync"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
	"golang.org/x/text/collate"
	"golang.org/x/text/language"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

// Collation compares strings. The nil Collation is the simple collation, which compares
// byte by byte. Its methods are safe for concurrent use.
type Collation struct {
	// Doc is the whole specification with all defaults, as the server shows it.
	Doc []byte

	mu       sync.Mutex // the collator keeps state during a call
	collator *collate.Collator
}

// version is the ICU version of the server. A specification that names another version is
// refused.
const version = "57.1"

// incompatibleVersion is the server's IncompatibleCollationVersion.
const incompatibleVersion mongoerr.Code = 161

// spec is a parsed collation specification.
type spec struct {
	locale   string
	strength int64
	numeric  bool
}

// Parse parses a specification. It returns nil for the simple collation and for an empty
// specification.
func Parse(v bsonraw.Value) (*Collation, error) {
	if v.Type != bsoncore.TypeEmbeddedDocument {
		return nil, mongoerr.New(mongoerr.TypeMismatch, "'collation' must be an object: %s", bsonraw.Format(v))
	}
	if bsonraw.Empty(v.Data) {
		return nil, nil
	}
	s := spec{strength: 3}
	for it := bsonraw.NewIter(v.Data); it.Next(); {
		if err := s.set(string(it.Key()), it.Value()); err != nil {
			return nil, err
		}
	}
	switch {
	case s.locale == "":
		return nil, mongoerr.New(40414, "BSON field 'collation.locale' is missing but a required field")
	case s.locale == "simple" && bsonraw.Len(v.Data) > 1:
		return nil, mongoerr.New(mongoerr.BadValue, "Field '%s' cannot be set when locale is 'simple'", secondKey(v.Data))
	case s.locale == "simple":
		return nil, nil
	}
	return s.compile()
}

func secondKey(doc []byte) string {
	for it := bsonraw.NewIter(doc); it.Next(); {
		if key := string(it.Key()); key != "locale" {
			return key
		}
	}
	return ""
}

func (s *spec) set(key string, v bsonraw.Value) error {
	// only contains the options for which this server supports one value.
	only := map[string]bsonraw.Value{
		"caseLevel": bsonraw.BoolValue(false), "caseFirst": bsonraw.StringValue("off"), "alternate": bsonraw.StringValue("non-ignorable"),
		"maxVariable": bsonraw.StringValue("punct"), "backwards": bsonraw.BoolValue(false),
	}
	switch key {
	case "locale":
		if v.Type != bsoncore.TypeString {
			return mongoerr.New(mongoerr.TypeMismatch, "BSON field 'collation.locale' is the wrong type '%s', expected type 'string'", bsonraw.TypeName(v.Type))
		}
		s.locale = string(bsonraw.Text(v))
	case "strength":
		n, ok := bsonraw.Int64(v)
		switch {
		case !ok || n < 1 || n > 5:
			return mongoerr.New(51024, "BSON field 'collation.strength' value must be >= 1 and <= 5, actual value '%s'", bsonraw.Format(v))
		case n > 3:
			return mongoerr.Lacking("the collation strength %d", n)
		}
		s.strength = n
	case "numericOrdering":
		s.numeric = bsonraw.Truthy(v)
	case "normalization": // the collator always normalizes
	case "version":
		if v.Type != bsoncore.TypeString || string(bsonraw.Text(v)) != version {
			return mongoerr.New(incompatibleVersion, "Requested collation version %s but the only available collator version was %s", bsonraw.Format(v), version)
		}
	default:
		known, ok := only[key]
		switch {
		case !ok:
			return mongoerr.New(40415, "BSON field 'collation.%s' is an unknown field.", key)
		case !bsonraw.Equal(known, v):
			return mongoerr.Lacking("the collation option %s: %s", key, bsonraw.Format(v))
		}
	}
	return nil
}

func (s *spec) compile() (*Collation, error) {
	tag, err := language.Parse(s.locale)
	if err != nil {
		return nil, mongoerr.New(mongoerr.BadValue, "Field 'locale' is invalid in: { locale: \"%s\" }", s.locale)
	}
	if base, _ := tag.Base(); !slices.ContainsFunc(collate.Supported(), func(known language.Tag) bool {
		b, _ := known.Base()
		return b == base
	}) {
		return nil, mongoerr.Lacking("the collation locale %q", s.locale)
	}
	if s.locale == "fr_CA" { // it compares accents from the end of the string
		return nil, mongoerr.Lacking("the collation locale %q", s.locale)
	}
	var options []collate.Option
	if s.strength < 3 {
		options = append(options, collate.IgnoreCase, collate.IgnoreWidth)
	}
	if s.strength < 2 {
		options = append(options, collate.IgnoreDiacritics)
	}
	if s.numeric {
		options = append(options, collate.Numeric)
	}
	doc := bsonraw.NewBuilder(192).String("locale", s.locale).Bool("caseLevel", false).String("caseFirst", "off").
		Int32("strength", int32(s.strength)).Bool("numericOrdering", s.numeric).String("alternate", "non-ignorable").
		String("maxVariable", "punct").Bool("normalization", false).Bool("backwards", false).String("version", version).Bytes()
	return &Collation{Doc: doc, collator: collate.New(tag, options...)}, nil
}

// Equal reports whether two collations compare strings in the same way.
func Equal(a, b *Collation) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.Equal(a.Doc, b.Doc)
}

// Value returns v with each string replaced by its sort key, as a string. Two results
// compare byte by byte as the original values compare under the collation.
func (c *Collation) Value(v bsonraw.Value) bsonraw.Value {
	if c == nil {
		return v
	}
	switch v.Type {
	case bsoncore.TypeString, bsoncore.TypeSymbol:
		return bsonraw.StringValue(string(c.key(bsonraw.Text(v))))
	case bsoncore.TypeEmbeddedDocument, bsoncore.TypeArray:
		b := bsonraw.NewBuilder(2 * len(v.Data))
		for it := bsonraw.NewIter(v.Data); it.Next(); {
			b.Raw(it.Key(), c.Value(it.Value()))
		}
		return bsonraw.Value{Type: v.Type, Data: b.Bytes()}
	}
	return v
}

func (c *Collation) key(text []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	var buffer collate.Buffer
	return slices.Clone(c.collator.Key(&buffer, text))
}
