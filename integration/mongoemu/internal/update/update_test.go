package update_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsongen"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/expr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/update"
)

// compile compiles an update in JSON.
func compile(t *testing.T, json string) (*update.Update, error) {
	t.Helper()
	u, _ := bsonraw.Lookup(bsongen.Parse(t, `{"u": `+json+`}`), "u")
	return update.Compile(u)
}

func show(doc []byte) string {
	if doc == nil {
		return ""
	}
	return bsonraw.FormatDocument(doc)
}

var at = update.Context{
	Now:  update.Instant{Milliseconds: 1000, Timestamp: bsonraw.TimestampValue(bson.Timestamp{T: 1, I: 1})},
	Vars: expr.Vars{Now: 1000},
}

func TestApply(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, doc, update, want string
		description             string // empty if the update changes nothing
	}{
		{"set", `{"_id": 1, "a": 1}`, `{"$set": {"a": 2}}`, `{ _id: 1, a: 2 }`, `{ updatedFields: { a: 2 }, removedFields: [] }`},
		{"set what is there", `{"_id": 1, "a": 1}`, `{"$set": {"a": 1}}`, `{ _id: 1, a: 1 }`, ``},
		{"set another type", `{"_id": 1, "a": 1}`, `{"$set": {"a": 1.0}}`, `{ _id: 1, a: 1.0 }`, `{ updatedFields: { a: 1.0 }, removedFields: [] }`},
		{"new fields in the order of their names", `{"_id": 1}`, `{"$set": {"c": 1, "a": 1}, "$inc": {"b": 1}}`, `{ _id: 1, a: 1, b: 1, c: 1 }`, `{ updatedFields: { a: 1, b: 1, c: 1 }, removedFields: [] }`},
		{"nested new", `{"_id": 1}`, `{"$set": {"a.b.c": 1, "a.b.d": 2}}`, `{ _id: 1, a: { b: { c: 1, d: 2 } } }`, `{ updatedFields: { a: { b: { c: 1, d: 2 } } }, removedFields: [] }`},
		{"nested", `{"_id": 1, "a": {"b": 1}}`, `{"$set": {"a.b": 2}, "$unset": {"a.c": ""}}`, `{ _id: 1, a: { b: 2 } }`, `{ updatedFields: { a.b: 2 }, removedFields: [] }`},
		{"array position", `{"_id": 1, "a": [1, 2]}`, `{"$set": {"a.1": 9}}`, `{ _id: 1, a: [ 1, 9 ] }`, `{ updatedFields: { a.1: 9 }, removedFields: [] }`},
		{"array padding", `{"_id": 1, "a": [1]}`, `{"$set": {"a.2": 9}}`, `{ _id: 1, a: [ 1, null, 9 ] }`, `{ updatedFields: { a.2: 9 }, removedFields: [] }`},
		{"unset", `{"_id": 1, "a": 1, "b": {"c": 1}}`, `{"$unset": {"a": "", "b.c": "", "x.y": ""}}`, `{ _id: 1, b: {} }`, `{ updatedFields: {}, removedFields: [ "a", "b.c" ] }`},
		{"unset in an array", `{"_id": 1, "a": [1, 2]}`, `{"$unset": {"a.0": ""}}`, `{ _id: 1, a: [ null, 2 ] }`, `{ updatedFields: { a.0: null }, removedFields: [] }`},
		{"inc", `{"_id": 1, "a": 1}`, `{"$inc": {"a": 2, "b": 5}}`, `{ _id: 1, a: 3, b: 5 }`, `{ updatedFields: { a: 3, b: 5 }, removedFields: [] }`},
		{"inc by nothing", `{"_id": 1, "a": 1}`, `{"$inc": {"a": 0}}`, `{ _id: 1, a: 1 }`, ``},
		{"inc int to long", `{"_id": 1, "a": 2147483647}`, `{"$inc": {"a": 1}}`, `{ _id: 1, a: 2147483648 }`, `{ updatedFields: { a: 2147483648 }, removedFields: [] }`},
		{"inc double", `{"_id": 1, "a": 1}`, `{"$inc": {"a": 0.5}}`, `{ _id: 1, a: 1.5 }`, `{ updatedFields: { a: 1.5 }, removedFields: [] }`},
		{"min and max", `{"_id": 1, "a": 5, "b": 5, "c": 5}`, `{"$min": {"a": 3, "x": 1}, "$max": {"b": 3, "c": 7}}`, `{ _id: 1, a: 3, b: 5, c: 7, x: 1 }`, `{ updatedFields: { a: 3, c: 7, x: 1 }, removedFields: [] }`},
		{"max across types", `{"_id": 1, "a": 5}`, `{"$max": {"a": "x"}}`, `{ _id: 1, a: "x" }`, `{ updatedFields: { a: "x" }, removedFields: [] }`},
		{"set on insert does nothing", `{"_id": 1}`, `{"$setOnInsert": {"a": 1}}`, `{ _id: 1 }`, ``},
		{"current date", `{"_id": 1}`, `{"$currentDate": {"a": true, "b": {"$type": "timestamp"}}}`, `{ _id: 1, a: new Date(1000), b: Timestamp(1, 1) }`, `{ updatedFields: { a: new Date(1000), b: Timestamp(1, 1) }, removedFields: [] }`},
		{"push new", `{"_id": 1}`, `{"$push": {"a": {"x": 1}}}`, `{ _id: 1, a: [ { x: 1 } ] }`, `{ updatedFields: { a: [ { x: 1 } ] }, removedFields: [] }`},
		{"push at the end", `{"_id": 1, "a": [1]}`, `{"$push": {"a": {"$each": [2, 3]}}}`, `{ _id: 1, a: [ 1, 2, 3 ] }`, `{ updatedFields: { a.1: 2, a.2: 3 }, removedFields: [] }`},
		{"push in front", `{"_id": 1, "a": [1]}`, `{"$push": {"a": {"$each": [2, 3], "$position": 0}}}`, `{ _id: 1, a: [ 2, 3, 1 ] }`, `{ updatedFields: { a: [ 2, 3, 1 ] }, removedFields: [] }`},
		{"push before the last", `{"_id": 1, "a": [1, 2]}`, `{"$push": {"a": {"$each": [9], "$position": -1}}}`, `{ _id: 1, a: [ 1, 9, 2 ] }`, `{ updatedFields: { a: [ 1, 9, 2 ] }, removedFields: [] }`},
		{"push, sort and keep the last", `{"_id": 1, "a": [3, 1]}`, `{"$push": {"a": {"$each": [2], "$sort": 1, "$slice": -2}}}`, `{ _id: 1, a: [ 2, 3 ] }`, `{ updatedFields: { a: [ 2, 3 ] }, removedFields: [] }`},
		{"push and sort by a field", `{"_id": 1, "a": [{"n": 1}]}`, `{"$push": {"a": {"$each": [{"n": 2}], "$sort": {"n": -1}}}}`, `{ _id: 1, a: [ { n: 2 }, { n: 1 } ] }`, `{ updatedFields: { a: [ { n: 2 }, { n: 1 } ] }, removedFields: [] }`},
		{"push nothing", `{"_id": 1, "a": [1]}`, `{"$push": {"a": {"$each": []}}}`, `{ _id: 1, a: [ 1 ] }`, ``},
		{"nothing", `{"_id": 1}`, `{"$set": {}}`, `{ _id: 1 }`, ``},
		{"pipeline", `{"_id": 1, "a": 1, "b": 2}`, `[{"$set": {"c": {"$add": ["$a", "$b"]}, "n": "$$NOW"}}, {"$unset": "b"}]`, `{ _id: 1, a: 1, c: 3, n: new Date(1000) }`, `{ updatedFields: { c: 3, n: new Date(1000) }, removedFields: [ "b" ] }`},
		{"pipeline that keeps the root", `{"_id": 1, "v": 2}`, `[{"$replaceWith": {"$cond": [{"$gte": ["$v", 1]}, "$$ROOT", {"_id": 1}]}}]`, `{ _id: 1, v: 2 }`, ``},
		{"pipeline that loses the id", `{"_id": 1, "v": 2}`, `[{"$replaceWith": {"w": {"$literal": "$x"}}}]`, `{ _id: 1, w: "$x" }`, `{ updatedFields: { w: "$x" }, removedFields: [ "v" ] }`},
	}
	for _, tt := range tests {
		u, err := compile(t, tt.update)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		r, err := u.Apply(bsongen.Parse(t, tt.doc), at)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if show(r.Doc) != tt.want || show(r.Description) != tt.description || r.Changed != (tt.description != "") {
			t.Errorf("%s:\n got %s\nwant %s\n got %s\nwant %s", tt.name, show(r.Doc), tt.want, show(r.Description), tt.description)
		}
	}
}

func TestReplacement(t *testing.T) {
	t.Parallel()
	u, err := compile(t, `{"b": 2}`)
	if err != nil {
		t.Fatal(err)
	}
	r, err := u.Apply(bsongen.Parse(t, `{"_id": 1, "a": 1}`), at)
	if err != nil || show(r.Doc) != `{ _id: 1, b: 2 }` || !r.Replaced || !r.Changed {
		t.Errorf("%s, %+v, %v", show(r.Doc), r, err)
	}
	r, err = u.Apply(bsongen.Parse(t, `{"_id": 1, "b": 2}`), at)
	if err != nil || r.Changed {
		t.Errorf("the same document again: %+v, %v", r, err)
	}
}

func TestInsertContext(t *testing.T) {
	t.Parallel()
	u, err := compile(t, `{"$setOnInsert": {"created": true}, "$set": {"v": 1}}`)
	if err != nil {
		t.Fatal(err)
	}
	c := at
	c.Insert = true
	r, err := u.Apply(bsongen.Parse(t, `{"_id": "x"}`), c)
	if err != nil || show(r.Doc) != `{ _id: "x", created: true, v: 1 }` {
		t.Errorf("%s, %v", show(r.Doc), err)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		doc, update string
		code        mongoerr.Code
		says        string
	}{
		{`{"_id": 1}`, `{"$nope": {"a": 1}}`, mongoerr.FailedToParse, "Unknown modifier: $nope. Expected a valid update modifier or pipeline-style update specified as an array"},
		{`{"_id": 1}`, `{"$bit": {"a": {"and": 1}}}`, mongoerr.NotImplemented, "mongoemu does not support the update operator $bit"},
		{`{"_id": 1}`, `{"$addToSet": {"a": 1}}`, mongoerr.NotImplemented, "mongoemu does not support the update operator $addToSet"},
		{`{"_id": 1}`, `{"$set": {"a": 1}, "$inc": {"a": 1}}`, mongoerr.ConflictingUpdateOperators, "Updating the path 'a' would create a conflict at 'a'"},
		{`{"_id": 1}`, `{"$set": {"a": 1, "a.b": 1}}`, mongoerr.ConflictingUpdateOperators, "Updating the path 'a.b' would create a conflict at 'a'"},
		{`{"_id": 1}`, `{"$set": {"_id": 2}}`, mongoerr.ImmutableField, "Performing an update on the path '_id' would modify the immutable field '_id'"},
		{`{"_id": 1}`, `{"$unset": {"_id": ""}}`, mongoerr.ImmutableField, ""},
		{`{"_id": 1}`, `{"_id": 2}`, mongoerr.ImmutableField, "After applying the update, the (immutable) field '_id' was found to have been altered to _id: 2"},
		{`{"_id": "u1", "name": "x"}`, `{"$inc": {"name": 1}}`, mongoerr.TypeMismatch, `Cannot apply $inc to a value of non-numeric type. {_id: "u1"} has the field 'name' of non-numeric type string`},
		{`{"_id": 1}`, `{"$inc": {"a": "x"}}`, mongoerr.TypeMismatch, ""},
		{`{"_id": 1, "a": {"$numberLong": "9223372036854775807"}}`, `{"$inc": {"a": 1}}`, mongoerr.BadValue, ""},
		{`{"_id": 1, "a": 5}`, `{"$set": {"a.b": 1}}`, mongoerr.PathNotViable, "Cannot create field 'b' in element {a: 5}"},
		{`{"_id": 1, "a": [1]}`, `{"$set": {"a.b": 1}}`, mongoerr.PathNotViable, "Cannot create field 'b' in element {a: [ 1 ]}"},
		{`{"_id": 1, "a": 5}`, `{"$push": {"a": 1}}`, mongoerr.BadValue, "The field 'a' must be an array but is of type int in document {_id: 1}"},
		{`{"_id": 1}`, `{"$set": {"a.$": 1}}`, mongoerr.NotImplemented, `mongoemu does not support the positional update path "a.$"`},
		{`{"_id": 1}`, `{"$set": {"a.$[].b": 1}}`, mongoerr.NotImplemented, ""},
		{`{"_id": 1}`, `{"$set": {"a..b": 1}}`, mongoerr.EmptyFieldName, ""},
		{`{"_id": 1}`, `{"$set": 1}`, mongoerr.FailedToParse, ""},
		{`{"_id": 1}`, `{"a": 1, "$set": {"b": 1}}`, mongoerr.DollarPrefixedFieldName, ""},
		{`{"_id": 1}`, `[{"$group": {"_id": 1}}]`, mongoerr.InvalidOptions, "$group is not allowed to be used within an update"},
		{`{"_id": 1}`, `{"$push": {"a": {"$each": [1], "$wrong": 1}}}`, mongoerr.BadValue, "Unrecognized clause in $push: $wrong"},
		{`{"_id": 1, "a": {"$numberDecimal": "1"}}`, `{"$inc": {"a": 1}}`, mongoerr.NotImplemented, "mongoemu does not support $inc of Decimal128"},
	}
	for _, tt := range tests {
		u, err := compile(t, tt.update)
		if err == nil {
			_, err = u.Apply(bsongen.Parse(t, tt.doc), at)
		}
		if !mongoerr.Has(err, tt.code) || tt.says != "" && mongoerr.As(err).Message != tt.says {
			t.Errorf("%s on %s: %v", tt.update, tt.doc, err)
		}
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	u, err := update.Compile(bsonraw.DocumentValue(bsonraw.MustMarshal(bson.D{{Key: "$set", Value: bson.D{{Key: "a", Value: make([]byte, update.MaxDocument)}}}})))
	if err != nil {
		t.Fatal(err)
	}
	for insert, code := range map[bool]mongoerr.Code{false: 17419, true: 17420} {
		if _, err = u.Apply(bsongen.Parse(t, `{"_id": 1}`), update.Context{Insert: insert}); !mongoerr.Has(err, code) {
			t.Errorf("insert %v: %v, want code %d", insert, err, code)
		}
	}
}
