package expr_test

import (
	"testing"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsongen"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/expr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

func compile(t *testing.T, json string) (expr.Expr, error) {
	t.Helper()
	v, _ := bsonraw.Lookup(bsongen.Parse(t, `{"e": `+json+`}`), "e")
	return expr.Compile(v)
}

func TestEval(t *testing.T) {
	t.Parallel()
	doc := `{"n": 5, "f": 2.5, "s": "text", "nil": null, "o": {"x": 1}, "arr": [1, 2, 3], "docs": [{"x": 1}, {"y": 2}, {"x": 3}],
		"at": {"$date": {"$numberLong": "1000"}}, "big": {"$numberLong": "9223372036854775807"}, "t": true}`
	for e, want := range map[string]string{
		`"$n"`: "5", `"$o.x"`: "1", `"$docs.x"`: "[ 1, 3 ]", `"$none"`: "MISSING", `"$n.x"`: "MISSING", `"$$ROOT.s"`: `"text"`,
		`"$$CURRENT.n"`: "5", `"$$REMOVE"`: "MISSING", `"$$NOW"`: "new Date(77)", `"plain"`: `"plain"`, `1`: "1",
		`{"$literal": "$n"}`: `"$n"`, `{"a": "$n", "b": "$none", "c": {"$add": [1, 1]}}`: "{ a: 5, c: 2 }", `["$n", "$none"]`: "[ 5, null ]", `{}`: "{}",
		`{"$eq": ["$n", 5.0]}`: "true", `{"$eq": ["$none", null]}`: "false", `{"$lt": ["$none", null]}`: "true", `{"$gt": ["$s", 100]}`: "true",
		`{"$and": []}`: "true", `{"$and": ["$n", "$nil"]}`: "false", `{"$or": []}`: "false", `{"$or": ["$nil", "$s"]}`: "true", `{"$not": ["$nil"]}`: "true", `{"$not": "$n"}`: "false",
		`{"$cond": ["$t", 1, 2]}`: "1", `{"$cond": {"if": "$nil", "then": 1, "else": "$none"}}`: "MISSING", `{"$ifNull": ["$nil", "$none", 7]}`: "7", `{"$ifNull": ["$n", 7]}`: "5",
		`{"$add": ["$n", 1]}`: "6", `{"$add": ["$n", "$f"]}`: "7.5", `{"$add": ["$n", "$nil"]}`: "null", `{"$add": ["$at", 5]}`: "new Date(1005)", `{"$add": ["$big", 1]}`: "9.223372036854776e+18", `{"$add": [2147483647, 1]}`: "2147483648",
		`{"$subtract": ["$n", 7]}`: "-2", `{"$subtract": ["$at", {"$date": {"$numberLong": "400"}}]}`: "600", `{"$subtract": ["$at", 1]}`: "new Date(999)",
		`{"$bsonSize": {"a": {"$numberInt": "1"}}}`: "12", `{"$bsonSize": "$nil"}`: "null",
		`{"$in": [2, "$arr"]}`: "true", `{"$in": ["2", "$arr"]}`: "false",
		`{"$type": "$none"}`: `"missing"`, `{"$type": "$at"}`: `"date"`,
		`{"$max": "$arr"}`: "3", `{"$min": ["$n", "$f", "$nil"]}`: "2.5", `{"$sum": "$arr"}`: "6", `{"$sum": ["$n", "$s"]}`: "5",
	} {
		compiled, err := compile(t, e)
		if err != nil {
			t.Errorf("%s: %v", e, err)
			continue
		}
		v, err := compiled.Eval(bsongen.Parse(t, doc), expr.Vars{Now: 77})
		if err != nil || bsonraw.Format(v) != want {
			t.Errorf("%s: %s, %v, want %s", e, bsonraw.Format(v), err, want)
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for e, code := range map[string]mongoerr.Code{
		`{"$bogus": 1}`: mongoerr.InvalidPipelineOperator, `{"$eq": [1]}`: 16020, `{"$eq": [1, 2], "$ne": [1, 2]}`: 15983, `"$a..b"`: 15998, `"$a.$b"`: 16410, `"$$nope"`: 17276, `"$$CLUSTER_TIME"`: mongoerr.NotImplemented,
		`{"a.b": 1}`: 16410, `{"$cond": [1, 2]}`: 16020, `{"$cond": {"if": 1, "then": 2}}`: 17080, `{"$cond": {"if": 1, "then": 2, "else": 3, "x": 4}}`: 17083, `{"$ifNull": [1]}`: 1257300,
		`{"$add": ["$s", 1]}`: mongoerr.TypeMismatch, `{"$add": [{"$numberDecimal": "1"}]}`: mongoerr.NotImplemented, `{"$subtract": ["$s", 1]}`: mongoerr.TypeMismatch,
		`{"$in": [1, "$n"]}`: 40081,
	} {
		compiled, err := compile(t, e)
		if err == nil {
			_, err = compiled.Eval(bsongen.Parse(t, `{"n": 5, "s": "text", "o": {}}`), expr.Vars{})
		}
		if !mongoerr.Has(err, code) {
			t.Errorf("%s: %v, want code %d", e, err, code)
		}
	}
}

func TestApply(t *testing.T) {
	t.Parallel()
	least := bsonraw.Int64Value(-1 << 63)
	for _, tt := range []struct {
		op   expr.Arith
		a, b bsonraw.Value
		want string // empty if the operation overflows
	}{
		{expr.Add, bsonraw.Int32Value(1), bsonraw.Int32Value(2), "3"},
		{expr.Add, bsonraw.Int64Value(1<<63 - 1), bsonraw.Int32Value(1), ""},
		{expr.Subtract, least, bsonraw.Int32Value(1), ""},
		{expr.Subtract, bsonraw.Int32Value(0), least, ""},
	} {
		v, ok := expr.Apply(tt.op, tt.a, tt.b)
		if ok != (tt.want != "") || ok && bsonraw.Format(v) != tt.want {
			t.Errorf("%v %s %s: %s, %v, want %s", tt.op, bsonraw.Format(tt.a), bsonraw.Format(tt.b), bsonraw.Format(v), ok, tt.want)
		}
	}
}
