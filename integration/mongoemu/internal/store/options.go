package store

import (
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/collation"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/expr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/query"
)

// Options are a collection's options, set by create and collMod. They are never modified.
// A nil Options has no options.
type Options struct {
	// Doc contains the options as listCollections shows them.
	Doc []byte
	// Collation is the default collation of queries and indexes; nil compares byte by
	// byte.
	Collation *collation.Collation
	validator *query.Matcher
	// moderate allows updates of documents that were invalid before the update.
	moderate bool
}

// These are the values of validationLevel and validationAction.
const (
	levelOff, levelStrict, levelModerate = "off", "strict", "moderate"
	actionError, actionWarn              = "error", "warn"
)

// ParseOptions parses the options of create: validator, validationLevel, validationAction
// and collation.
func ParseOptions(ns Namespace, doc []byte) (*Options, error) {
	o := &Options{}
	var validator []byte
	level, action := levelStrict, actionError
	shown := bsonraw.NewBuilder(len(doc) + 64)
	for it := bsonraw.NewIter(doc); it.Next(); {
		key, v := string(it.Key()), it.Value()
		var err error
		switch key {
		case "validator":
			if v.Type != bsoncore.TypeEmbeddedDocument {
				return nil, mongoerr.New(mongoerr.TypeMismatch, "BSON field 'create.validator' is the wrong type '%s', expected type 'object'", bsonraw.TypeName(v.Type))
			}
			if validator = v.Data; bsonraw.Empty(validator) {
				continue
			}
			err = checkValidated(ns)
		case "validationLevel":
			level, err = oneOf(key, v, levelOff, levelStrict, levelModerate)
		case "validationAction":
			action, err = oneOf(key, v, actionError, actionWarn)
		case "collation":
			if o.Collation, err = collation.Parse(v); o.Collation != nil {
				v = bsonraw.DocumentValue(o.Collation.Doc)
			} else if err == nil {
				continue
			}
		default:
			err = mongoerr.Lacking("the collection option %q", key)
		}
		if err != nil {
			return nil, err
		}
		shown.Value(key, v)
	}
	o.Doc = shown.Bytes()
	if bsonraw.Empty(validator) {
		return o, nil
	}
	m, err := query.Compile(validator, expr.Vars{Collation: o.Collation})
	if err != nil {
		return nil, err
	}
	if level != levelOff && action == actionError {
		o.validator, o.moderate = m, level == levelModerate
	}
	return o, nil
}

func checkValidated(ns Namespace) error {
	switch ns.DB {
	case "admin", "local", "config":
		return mongoerr.New(mongoerr.InvalidOptions, "Document validators are not allowed on collection %s in the %s database", ns, ns.DB)
	}
	return nil
}

func oneOf(key string, v bsonraw.Value, known ...string) (string, error) {
	if v.Type != bsoncore.TypeString {
		return "", mongoerr.New(mongoerr.TypeMismatch, "BSON field '%s' is the wrong type '%s', expected type 'string'", key, bsonraw.TypeName(v.Type))
	}
	given := string(bsonraw.Text(v))
	for _, k := range known {
		if given == k {
			return given, nil
		}
	}
	return "", mongoerr.New(mongoerr.BadValue, "Enumeration value '%s' for field '%s' is not a valid value.", given, key)
}

// with returns the options after a collMod: fields of set replace the old ones. The
// server then shows the level and the action even if no client has set them.
func (o *Options) with(ns Namespace, set []byte) (*Options, error) {
	b := bsonraw.NewBuilder(256)
	var old []byte
	if o != nil {
		old = o.Doc
	}
	for it := bsonraw.NewIter(old); old != nil && it.Next(); {
		if _, replaced := bsonraw.Lookup(set, string(it.Key())); !replaced {
			b.Raw(it.Key(), it.Value())
		}
	}
	b.Elements(set)
	for key, value := range map[string]string{"validationLevel": levelStrict, "validationAction": actionError} {
		_, before := bsonraw.Lookup(set, key)
		if old != nil && !before {
			_, before = bsonraw.Lookup(old, key)
		}
		if !before {
			b.String(key, value)
		}
	}
	return ParseOptions(ns, b.Bytes())
}

// DefaultCollation returns [Options.Collation], or nil if o is nil.
func (o *Options) DefaultCollation() *collation.Collation {
	if o == nil {
		return nil
	}
	return o.Collation
}

// valid returns an error if the validator rejects a document. old is the version that the
// document replaces; nil for an insert.
func (o *Options) valid(doc, old []byte) error {
	if o == nil || o.validator == nil {
		return nil
	}
	ok, err := o.validator.Match(doc)
	if err != nil || ok {
		return err
	}
	if o.moderate && old != nil {
		if before, err := o.validator.Match(old); err != nil || !before {
			return err
		}
	}
	e := mongoerr.New(mongoerr.DocumentValidationFailure, "Document failed validation")
	id, _ := bsonraw.Lookup(doc, "_id")
	e.Info = bsonraw.NewBuilder(64).Value("failingDocumentId", id).Start("details").End().Bytes()
	return e
}
