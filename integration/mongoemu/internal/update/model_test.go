package update_test

import (
	"bytes"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsongen"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/update"
)

// The model keeps documents as maps and applies one operator at a time. The whole update
// fails if its path cannot be followed.

type object = map[string]any

func toModel(v any) any {
	switch v := v.(type) {
	case bson.D:
		m := object{}
		for _, e := range v {
			m[e.Key] = toModel(e.Value)
		}
		return m
	case bson.A:
		arr := []any{}
		for _, e := range v {
			arr = append(arr, toModel(e))
		}
		return arr
	}
	return v
}

func fromModel(v any) any {
	switch v := v.(type) {
	case object:
		d := bson.D{}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			d = append(d, bson.E{Key: k, Value: fromModel(v[k])})
		}
		return d
	case []any:
		a := bson.A{}
		for _, e := range v {
			a = append(a, fromModel(e))
		}
		return a
	}
	return v
}

type impossible struct{}

// place replaces the value at a path with the result of change. present says whether the
// path exists. place panics with impossible if the path cannot be created.
func place(v any, path []string, change func(old any, present bool) any) any {
	if len(path) == 0 {
		return change(v, true)
	}
	switch v := v.(type) {
	case object:
		old, present := v[path[0]]
		if !present {
			if len(path) == 1 {
				v[path[0]] = change(nil, false)
				return v
			}
			old = object{}
		}
		v[path[0]] = place(old, path[1:], change)
		return v
	case []any:
		i, err := strconv.Atoi(path[0])
		if err != nil {
			panic(impossible{})
		}
		if i < len(v) {
			v[i] = place(v[i], path[1:], change)
			return v
		}
		for len(v) < i {
			v = append(v, nil)
		}
		if len(path) == 1 {
			return append(v, change(nil, false))
		}
		return append(v, place(object{}, path[1:], change))
	}
	panic(impossible{})
}

// seek reports whether a path exists.
func seek(v any, path []string) bool {
	if len(path) == 0 {
		return true
	}
	switch v := v.(type) {
	case object:
		next, ok := v[path[0]]
		return ok && seek(next, path[1:])
	case []any:
		i, err := strconv.Atoi(path[0])
		return err == nil && i < len(v) && seek(v[i], path[1:])
	}
	return false
}

func remove(v any, path []string) {
	if !seek(v, path) {
		return
	}
	place(v, path[:len(path)-1], func(parent any, _ bool) any {
		switch parent := parent.(type) {
		case object:
			delete(parent, path[len(path)-1])
		case []any:
			i, _ := strconv.Atoi(path[len(path)-1])
			parent[i] = nil
		}
		return parent
	})
}

func raw(v any) bsonraw.Value {
	out, _ := bsonraw.Lookup(bsonraw.MustMarshal(bson.D{{Key: "v", Value: fromModel(v)}}), "v")
	return out
}

func less(a, b any) bool { return bsonraw.Compare(raw(a), raw(b)) < 0 }
func same(a, b any) bool { return bsonraw.Compare(raw(a), raw(b)) == 0 }

func list(old any, present bool) []any {
	if !present {
		return []any{}
	}
	arr, ok := old.([]any)
	if !ok {
		panic(impossible{})
	}
	return arr
}

func modelApply(doc object, op string, path []string, operand any) {
	switch op {
	case "$set":
		place(doc, path, func(any, bool) any { return operand })
	case "$unset":
		remove(doc, path)
	case "$min", "$max":
		place(doc, path, func(old any, present bool) any {
			if !present || op == "$min" && less(operand, old) || op == "$max" && less(old, operand) {
				return operand
			}
			return old
		})
	case "$inc":
		place(doc, path, func(old any, present bool) any {
			switch old := old.(type) {
			case int32:
				return old + operand.(int32)
			case nil:
				if !present {
					return operand
				}
			}
			panic(impossible{})
		})
	case "$push":
		place(doc, path, func(old any, present bool) any { return append(list(old, present), operand) })
	case "$addToSet":
		place(doc, path, func(old any, present bool) any {
			arr := list(old, present)
			if slices.ContainsFunc(arr, func(v any) bool { return same(v, operand) }) {
				return arr
			}
			return append(arr, operand)
		})
	case "$pull":
		if seek(doc, path) {
			place(doc, path, func(old any, present bool) any {
				return slices.DeleteFunc(list(old, present), func(v any) bool { return same(v, operand) })
			})
		}
	}
}

func numeric(v any) bool {
	switch v := v.(type) {
	case object:
		for _, e := range v {
			if numeric(e) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, numeric)
	case int64, float64:
		return true
	}
	return false
}

func TestUpdateAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		doc := bson.D{{Key: "_id", Value: int32(1)}}
		doc = append(doc, bsongen.Document(2, bsongen.Names).Draw(t, "doc")...)
		path := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "0", "1", "3"}), 1, 3).Draw(t, "path")
		op := rapid.SampledFrom([]string{"$set", "$unset", "$min", "$max", "$inc", "$push", "$addToSet", "$pull"}).Draw(t, "op")
		var operand any = int32(rapid.IntRange(-2, 2).Draw(t, "n"))
		if op != "$inc" {
			operand = bsongen.Value(1).Draw(t, "operand")
		}
		if d, ok := operand.(bson.D); ok && op == "$pull" && len(d) >= 0 {
			operand = "x" // $pull reads a document as a filter
		}
		model := toModel(doc).(object)
		if op == "$inc" && numeric(model) {
			return // the model adds 32-bit integers only
		}
		possible := func() (ok bool) {
			defer func() {
				if p := recover(); p != nil {
					if _, expected := p.(impossible); !expected {
						panic(p)
					}
				}
			}()
			modelApply(model, op, path, toModel(operand))
			return true
		}()
		dotted := strings.Join(path, ".")
		u, err := update.Compile(bsonraw.DocumentValue(bsonraw.MustMarshal(bson.D{{Key: op, Value: bson.D{{Key: dotted, Value: operand}}}})))
		if err != nil {
			t.Fatal(err)
		}
		encoded := bsonraw.MustMarshal(doc)
		before := bytes.Clone(encoded)
		r, err := u.Apply(encoded, at)
		if (err == nil) != possible {
			t.Fatalf("%s %s %v on %v: %v, the model says possible: %v", op, dotted, operand, doc, err, possible)
		}
		if !bytes.Equal(before, encoded) {
			t.Fatal("the document was modified")
		}
		if err != nil {
			return
		}
		if err := bsonraw.Validate(r.Doc); err != nil {
			t.Fatal(err)
		}
		if got, want := canonical(t, r.Doc), bsonraw.MustMarshal(fromModel(model)); !bytes.Equal(got, want) {
			t.Fatalf("%s %s %v on %v:\n got %v\nwant %v", op, dotted, operand, doc, bson.Raw(got), want)
		}
		checkDescription(t, doc, r)
	})
}

// canonical returns a document with its fields sorted by name.
func canonical(t *rapid.T, doc []byte) []byte {
	var d bson.D
	if err := bson.Unmarshal(doc, &d); err != nil {
		t.Fatal(err)
	}
	return bsonraw.MustMarshal(fromModel(toModel(d)))
}

// checkDescription applies the description to the old document and compares the result
// with the new document.
func checkDescription(t *rapid.T, before bson.D, r update.Result) {
	if !r.Changed {
		if r.Description != nil {
			t.Fatal("nothing changed, and yet it is described")
		}
		return
	}
	var described struct {
		UpdatedFields bson.D   `bson:"updatedFields"`
		RemovedFields []string `bson:"removedFields"`
	}
	if err := bson.Unmarshal(r.Description, &described); err != nil {
		t.Fatal(err)
	}
	sort.Strings(described.RemovedFields)
	model := toModel(before).(object)
	for _, e := range described.UpdatedFields {
		place(model, strings.Split(e.Key, "."), func(any, bool) any { return toModel(e.Value) })
	}
	for _, p := range described.RemovedFields {
		remove(model, strings.Split(p, "."))
	}
	if got, want := bsonraw.MustMarshal(fromModel(model)), canonical(t, r.Doc); !bytes.Equal(got, want) {
		t.Fatalf("description %v of %v gives\n%v, want\n%v", bson.Raw(r.Description), before, got, bson.Raw(want))
	}
}
