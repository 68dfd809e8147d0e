package query_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsongen"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/expr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/query"
)

// The model matches decoded values. It is written from MongoDB's documentation,
// independently of the matcher.

// absent stands for a missing field.
type absent struct{}

// reach returns the values that a path reaches in a decoded document.
func reach(v any, path []string) []any {
	d, ok := v.(bson.D)
	if !ok {
		return []any{absent{}}
	}
	var next any = absent{}
	for _, e := range d {
		if e.Key == path[0] {
			next = e.Value
			break
		}
	}
	rest := path[1:]
	if len(rest) == 0 {
		return []any{next}
	}
	arr, ok := next.(bson.A)
	if !ok {
		return reach(next, rest)
	}
	return reachInto(arr, rest)
}

func reachInto(arr bson.A, path []string) []any {
	var out []any
	for i, e := range arr {
		if _, ok := e.(bson.D); ok {
			out = append(out, reach(e, path)...)
		}
		if path[0] != strconv.Itoa(i) {
			continue
		}
		switch e := e.(type) {
		case bson.D:
			if len(path) == 1 {
				out = append(out, e)
			} else {
				out = append(out, reach(e, path[1:])...)
			}
		case bson.A:
			if len(path) == 1 {
				out = append(out, position{e})
				continue
			}
			asDoc := bson.D{}
			for j, f := range e {
				asDoc = append(asDoc, bson.E{Key: strconv.Itoa(j), Value: f})
			}
			out = append(out, reach(asDoc, path[1:])...)
		default:
			if len(path) == 1 {
				out = append(out, e)
			}
		}
	}
	return out
}

// position is an array that the path reached by its array position. Comparisons do not
// expand it.
type position struct{ arr bson.A }

// candidates returns the values that a comparison at a path considers: an array and each
// of its elements.
func candidates(doc bson.D, path []string) []any {
	var out []any
	for _, v := range reach(doc, path) {
		switch v := v.(type) {
		case bson.A:
			out = append(append(out, v...), v)
		case position:
			out = append(out, v.arr)
		default:
			out = append(out, v)
		}
	}
	return out
}

func rank(v any) int {
	switch v.(type) {
	case absent:
		return 0
	case nil:
		return 1
	case int32, int64, float64:
		return 2
	case string:
		return 3
	case bson.D:
		return 4
	case bson.A:
		return 5
	case bson.Binary:
		return 6
	case bson.ObjectID:
		return 7
	case bool:
		return 8
	case bson.DateTime:
		return 9
	case bson.Timestamp:
		return 10
	}
	panic(fmt.Sprintf("no rank for %T", v))
}

func isNaN(v any) bool {
	f, ok := v.(float64)
	return ok && math.IsNaN(f)
}

func raw(v any) bsonraw.Value {
	doc := bsonraw.MustMarshal(bson.D{{Key: "v", Value: v}})
	out, _ := bsonraw.Lookup(doc, "v")
	return out
}

// holds evaluates one comparison. It uses package bsonraw to order two values of one
// type; bsonraw has its own tests.
func holds(v any, op string, operand any) bool {
	if _, missing := v.(absent); missing || v == nil {
		return operand == nil && op != "$gt" && op != "$lt"
	}
	if rank(v) != rank(operand) {
		return false
	}
	if isNaN(v) || isNaN(operand) {
		return isNaN(v) && isNaN(operand) && op != "$gt" && op != "$lt"
	}
	c := bsonraw.Compare(raw(v), raw(operand))
	switch op {
	case "$eq":
		return c == 0
	case "$gt":
		return c > 0
	case "$gte":
		return c >= 0
	case "$lt":
		return c < 0
	}
	return c <= 0
}

func anyHolds(doc bson.D, path []string, op string, operand any) bool {
	for _, v := range candidates(doc, path) {
		if holds(v, op, operand) {
			return true
		}
	}
	return false
}

func modelMatch(doc bson.D, path []string, op string, operand any) bool {
	switch op {
	case "$ne":
		return !anyHolds(doc, path, "$eq", operand)
	case "$in", "$nin":
		found := false
		for _, o := range operand.(bson.A) {
			found = found || anyHolds(doc, path, "$eq", o)
		}
		return found == (op == "$in")
	case "$exists":
		found := false
		for _, v := range reach(doc, path) {
			if _, missing := v.(absent); !missing {
				found = true
			}
		}
		return found == operand.(bool)
	case "$size":
		for _, v := range reach(doc, path) {
			if p, ok := v.(position); ok {
				v = p.arr
			}
			if arr, ok := v.(bson.A); ok && len(arr) == operand.(int) {
				return true
			}
		}
		return false
	case "$all":
		for _, o := range operand.(bson.A) {
			if !anyHolds(doc, path, "$eq", o) {
				return false
			}
		}
		return len(operand.(bson.A)) > 0
	}
	return anyHolds(doc, path, op, operand)
}

// paths returns all paths of up to three of these names.
func paths() [][]string {
	names := []string{"a", "b", "0", "1"}
	var out [][]string
	longest := [][]string{nil}
	for range 3 {
		var next [][]string
		for _, p := range longest {
			for _, n := range names {
				next = append(next, append(slices.Clone(p), n))
			}
		}
		out = append(out, next...)
		longest = next
	}
	return out
}

// The test tries every path and every operator on each document. Half of the time the
// operand comes from the document itself.
func TestMatcherAgainstModel(t *testing.T) {
	t.Parallel()
	every := paths()
	rapid.Check(t, func(t *rapid.T) {
		doc := bson.D{{Key: "a", Value: bsongen.Value(3).Draw(t, "a")}, {Key: "b", Value: bsongen.Value(3).Draw(t, "b")}}
		encoded := bsonraw.MustMarshal(doc)
		before := bytes.Clone(encoded)
		operand := bsongen.Value(1).Draw(t, "operand")
		list := bson.A(rapid.SliceOfN(bsongen.Value(1), 0, 12).Draw(t, "operands"))
		for _, path := range every {
			if rapid.Bool().Draw(t, "own") {
				if own := candidates(doc, path); len(own) > 0 && rank(own[0]) > 0 {
					operand = own[0]
					list = append(list, operand)
				}
			}
			for _, op := range []string{"$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists", "$size", "$all"} {
				o := operand
				switch op {
				case "$in", "$nin", "$all":
					o = list
				case "$exists":
					o = len(list)%2 == 0
				case "$size":
					o = len(list) % 4
				}
				filter := bson.D{{Key: query.Path(path).String(), Value: bson.D{{Key: op, Value: o}}}}
				m, err := query.Compile(bsonraw.MustMarshal(filter), expr.Vars{})
				if err != nil {
					t.Fatal(err)
				}
				got, err := m.Match(encoded)
				if err != nil {
					t.Fatal(err)
				}
				if want := modelMatch(doc, path, op, o); got != want {
					t.Fatalf("%v on %v: %v, want %v", filter, doc, got, want)
				}
			}
		}
		if !bytes.Equal(before, encoded) {
			t.Fatal("the document was modified")
		}
	})
}
