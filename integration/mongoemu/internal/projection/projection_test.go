package projection_test

import (
	"testing"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsongen"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/expr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/projection"
)

// stage compiles a stage document. The name "find" means the projection of find.
func stage(t *testing.T, json string) (projection.Transform, error) {
	t.Helper()
	it := bsonraw.NewIter(bsongen.Parse(t, json))
	it.Next()
	if string(it.Key()) == "find" {
		return projection.Compile(it.Value().Data)
	}
	x, ok, err := projection.CompileStage(string(it.Key()), it.Value())
	if !ok {
		t.Fatalf("%s is no stage", json)
	}
	return x, err
}

func TestApply(t *testing.T) {
	t.Parallel()
	const doc = `{"_id": 1, "a": 1, "b": {"c": 2, "d": 3}, "e": [{"f": 4, "g": 5}, 6, [{"f": 7}]]}`
	for s, want := range map[string]string{
		`{"find": {}}`:                                          `{ _id: 1, a: 1, b: { c: 2, d: 3 }, e: [ { f: 4, g: 5 }, 6, [ { f: 7 } ] ] }`,
		`{"find": {"a": 1}}`:                                    `{ _id: 1, a: 1 }`,
		`{"find": {"e": 1, "a": true, "_id": 0}}`:               `{ a: 1, e: [ { f: 4, g: 5 }, 6, [ { f: 7 } ] ] }`,
		`{"find": {"_id": 0}}`:                                  `{ a: 1, b: { c: 2, d: 3 }, e: [ { f: 4, g: 5 }, 6, [ { f: 7 } ] ] }`,
		`{"find": {"_id": 1}}`:                                  `{ _id: 1 }`,
		`{"find": {"b.c": 1}}`:                                  `{ _id: 1, b: { c: 2 } }`,
		`{"find": {"b": {"c": 1}, "e": {"f": 1}}}`:              `{ _id: 1, b: { c: 2 }, e: [ { f: 4 }, [ { f: 7 } ] ] }`,
		`{"find": {"a.x": 1, "b.x": 1}}`:                        `{ _id: 1, b: {} }`,
		`{"find": {"b.c": 0, "e.f": 0}}`:                        `{ _id: 1, a: 1, b: { d: 3 }, e: [ { g: 5 }, 6, [ {} ] ] }`,
		`{"find": {"a": "$b.c"}}`:                               `{ _id: 1, a: 2 }`,
		`{"find": {"x": {"$add": ["$a", 1]}, "a": 1}}`:          `{ _id: 1, a: 1, x: 2 }`,
		`{"find": {"b.new": "$a"}}`:                             `{ _id: 1, b: { new: 1 } }`,
		`{"$project": {"a": 1, "none": "$nope"}}`:               `{ _id: 1, a: 1 }`,
		`{"$set": {"a": 9, "z": "$a"}}`:                         `{ _id: 1, a: 9, b: { c: 2, d: 3 }, e: [ { f: 4, g: 5 }, 6, [ { f: 7 } ] ], z: 1 }`,
		`{"$addFields": {"b.c": 9, "b.z": 1, "e": "$$REMOVE"}}`: `{ _id: 1, a: 1, b: { c: 9, d: 3, z: 1 } }`,
		`{"$set": {"n": {"x": {"y": "$a"}}, "e": 1}}`:           `{ _id: 1, a: 1, b: { c: 2, d: 3 }, e: 1, n: { x: { y: 1 } } }`,
		`{"$set": {"e.f": 0}}`:                                  `{ _id: 1, a: 1, b: { c: 2, d: 3 }, e: [ { f: 0, g: 5 }, { f: 0 }, [ { f: 0 } ] ] }`,
		`{"$unset": ["a", "b.c", "e"]}`:                         `{ _id: 1, b: { d: 3 } }`,
		`{"$unset": "e"}`:                                       `{ _id: 1, a: 1, b: { c: 2, d: 3 } }`,
		`{"$replaceRoot": {"newRoot": "$b"}}`:                   `{ c: 2, d: 3 }`,
		`{"$replaceWith": {"_id": "$_id", "k": "v"}}`:           `{ _id: 1, k: "v" }`,
	} {
		x, err := stage(t, s)
		if err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		got, err := x.Apply(bsongen.Parse(t, doc), expr.Vars{})
		if err != nil || bsonraw.FormatDocument(got) != want {
			t.Errorf("%s: %v\n got %s\nwant %s", s, err, bsonraw.FormatDocument(got), want)
		}
		if err == nil {
			if err := bsonraw.Validate(got); err != nil {
				t.Errorf("%s: %v", s, err)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for s, code := range map[string]mongoerr.Code{
		`{"find": {"a": 1, "b": 0}}`: 31254, `{"find": {"a": 0, "b": 1}}`: 31253, `{"find": {"a": 1, "a.b": 1}}`: 31249, `{"find": {"a.b": 1, "a": 1}}`: 31250,
		`{"find": {"a": {"$slice": 1}}}`: mongoerr.NotImplemented, `{"find": {"a": {"$meta": "x"}}}`: mongoerr.NotImplemented, `{"find": {"a.$": 1}}`: mongoerr.NotImplemented, `{"find": {"a": {}}}`: 51270,
		`{"find": {"a": {"$bogus": 1}}}`: mongoerr.InvalidPipelineOperator, `{"$project": {}}`: 51272, `{"$project": 1}`: 15969, `{"$set": 1}`: 40272, `{"$unset": 1}`: 31002, `{"$unset": []}`: 31119,
		`{"$replaceRoot": 1}`: 40229, `{"$replaceRoot": {"x": 1}}`: 40231, `{"$replaceWith": "$a"}`: 40228,
	} {
		x, err := stage(t, s)
		if err == nil {
			_, err = x.Apply(bsongen.Parse(t, `{"_id": 1, "a": 1}`), expr.Vars{})
		}
		if !mongoerr.Has(err, code) {
			t.Errorf("%s: %v, want code %d", s, err, code)
		}
	}
}
