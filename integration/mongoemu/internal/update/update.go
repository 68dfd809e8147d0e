package update

import (
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/collation"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/expr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/projection"
)

// MaxDocument is the size limit of a stored document, in bytes.
const MaxDocument = 16 << 20

// Update is a compiled update. It is safe for concurrent use.
type Update struct {
	replacement []byte
	operations  []operation
	pipeline    []projection.Transform
	kind        kind
}

type kind byte

const (
	byOperators kind = iota
	byReplacement
	byPipeline
)

// Context is the input of an update besides the document.
type Context struct {
	// Insert says that an upsert is creating the document.
	Insert bool
	// Now is the time of $currentDate.
	Now Instant
	// Vars are the variables of expressions. Their collation compares strings.
	Vars expr.Vars
}

// Instant is one point in time, as a date and as a timestamp.
type Instant struct {
	// Milliseconds is the time in milliseconds since the Unix epoch.
	Milliseconds int64
	// Timestamp is the logical time as the eight bytes of a BSON timestamp.
	Timestamp bsonraw.Value
}

// Result is a document after an update.
type Result struct {
	Doc []byte
	// Changed is false if the update left every byte as it was.
	Changed bool
	// Replaced says that a change stream reports a replacement with the whole document.
	Replaced bool
	// Description is the updateDescription of a change stream; nil if Replaced is true or
	// Changed is false.
	Description []byte
}

// Compile compiles an update: a document of operators, a replacement, or a pipeline.
func Compile(u bsonraw.Value) (*Update, error) {
	switch u.Type {
	case bsoncore.TypeArray:
		return compilePipeline(u.Data)
	case bsoncore.TypeEmbeddedDocument:
	default:
		return nil, mongoerr.New(mongoerr.FailedToParse, "Update argument must be either an object or an array")
	}
	it := bsonraw.NewIter(u.Data)
	if it.Next() && strings.HasPrefix(string(it.Key()), "$") {
		ops, err := compileOperators(u.Data)
		return &Update{operations: ops, kind: byOperators}, err
	}
	for it := bsonraw.NewIter(u.Data); it.Next(); {
		if key := string(it.Key()); strings.HasPrefix(key, "$") {
			return nil, mongoerr.New(mongoerr.DollarPrefixedFieldName, "The dollar ($) prefixed field '%s' in '%s' is not allowed in the context of an update's replacement document. Consider using an aggregation pipeline with $replaceWith.", key, key)
		}
	}
	return &Update{replacement: u.Data, kind: byReplacement}, nil
}

// IsReplacement reports whether the update is a replacement document.
func (u *Update) IsReplacement() bool { return u.kind == byReplacement }

func compilePipeline(stages []byte) (*Update, error) {
	u := &Update{kind: byPipeline}
	for it := bsonraw.NewIter(stages); it.Next(); {
		stage := it.Value()
		if stage.Type != bsoncore.TypeEmbeddedDocument || bsonraw.Len(stage.Data) != 1 {
			return nil, mongoerr.New(40323, "A pipeline stage specification object must contain exactly one field.")
		}
		inner := bsonraw.NewIter(stage.Data)
		inner.Next()
		t, ok, err := projection.CompileStage(string(inner.Key()), inner.Value())
		switch {
		case err != nil:
			return nil, err
		case !ok:
			return nil, mongoerr.New(mongoerr.InvalidOptions, "%s is not allowed to be used within an update", inner.Key())
		}
		u.pipeline = append(u.pipeline, t)
	}
	return u, nil
}

// Apply returns the document after the update. It returns an error if the update changes
// _id or if the result is larger than [MaxDocument].
func (u *Update) Apply(doc []byte, c Context) (Result, error) {
	var r Result
	var err error
	switch u.kind {
	case byReplacement:
		r, err = u.replace(doc)
	case byPipeline:
		r, err = u.transform(doc, c)
	default:
		if err := u.comparable(c.Vars.Collation); err != nil {
			return Result{}, err
		}
		r, err = u.operate(doc, c)
	}
	if err != nil {
		return Result{}, err
	}
	switch {
	case len(r.Doc) <= MaxDocument:
		return r, nil
	case c.Insert:
		return Result{}, mongoerr.New(17420, "Document to upsert is larger than %d", MaxDocument)
	default:
		return Result{}, mongoerr.New(17419, "Resulting document after update is larger than %d", MaxDocument)
	}
}

// comparable refuses operators that would have to compare strings by a collation.
func (u *Update) comparable(by *collation.Collation) error {
	if by == nil {
		return nil
	}
	for _, op := range u.operations {
		switch op.name {
		case "$min", "$max", "$push":
			if op.name == "$push" && op.push.sort == nil {
				continue
			}
			if !bsonraw.Identical(by.Value(op.operand), op.operand) || op.name == "$push" {
				return mongoerr.Lacking("the update operator %s on strings with a collation", op.name)
			}
		}
	}
	return nil
}

func (u *Update) replace(doc []byte) (Result, error) {
	id, had := bsonraw.Lookup(doc, "_id")
	given, has := bsonraw.Lookup(u.replacement, "_id")
	if had && has && !bsonraw.Equal(id, given) {
		return Result{}, mongoerr.New(mongoerr.ImmutableField, "After applying the update, the (immutable) field '_id' was found to have been altered to _id: %s", bsonraw.Format(given))
	}
	r := Result{Doc: withID(u.replacement, id), Replaced: true}
	r.Changed = string(r.Doc) != string(doc)
	return r, nil
}

// withID returns doc with _id as its first field. The value is id or, if id is absent,
// the _id of doc.
func withID(doc []byte, id bsonraw.Value) []byte {
	b := bsonraw.NewBuilder(len(doc) + len(id.Data) + 5)
	if own, ok := bsonraw.Lookup(doc, "_id"); ok && bsonraw.IsMissing(id) {
		id = own
	}
	b.Value("_id", id)
	for it := bsonraw.NewIter(doc); it.Next(); {
		if string(it.Key()) != "_id" {
			b.Raw(it.Key(), it.Value())
		}
	}
	return b.Bytes()
}

func (u *Update) transform(doc []byte, c Context) (Result, error) {
	id, had := bsonraw.Lookup(doc, "_id")
	next := doc
	for _, t := range u.pipeline {
		var err error
		if next, err = t.Apply(next, c.Vars); err != nil {
			return Result{}, err
		}
	}
	given, has := bsonraw.Lookup(next, "_id")
	switch {
	case had && has && !bsonraw.Equal(id, given):
		return Result{}, mongoerr.New(mongoerr.ImmutableField, "After applying the update, the (immutable) field '_id' was found to have been altered to _id: %s", bsonraw.Format(given))
	case had && !has:
		next = withID(next, id)
	}
	r := Result{Doc: next, Changed: string(next) != string(doc)}
	if r.Changed {
		r.Description = diff(doc, next)
	}
	return r, nil
}

func (u *Update) operate(doc []byte, c Context) (Result, error) {
	root := leaf(bsonraw.DocumentValue(doc))
	root.expand()
	t := &target{root: root, doc: doc, context: c}
	for _, op := range u.operations {
		if op.onInsert && !c.Insert {
			continue
		}
		if err := op.apply(t, op); err != nil {
			return Result{}, err
		}
	}
	if len(t.changes) == 0 {
		return Result{Doc: doc}, nil
	}
	next := root.current().Data
	if err := checkID(doc, next); err != nil {
		return Result{}, err
	}
	if string(next) == string(doc) {
		return Result{Doc: doc}, nil
	}
	return Result{Doc: next, Changed: true, Description: t.describe()}, nil
}

func checkID(before, after []byte) error {
	id, had := bsonraw.Lookup(before, "_id")
	given, has := bsonraw.Lookup(after, "_id")
	if !had || has && bsonraw.Equal(id, given) {
		return nil
	}
	return mongoerr.New(mongoerr.ImmutableField, "Performing an update on the path '_id' would modify the immutable field '_id'")
}
