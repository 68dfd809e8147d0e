package query_test

import (
	"testing"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsongen"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/expr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/query"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	tests := []struct {
		filter string
		yes    []string
		no     []string
	}{
		{`{}`, []string{`{}`, `{"a": 1}`}, nil},
		{`{"a": 1}`, []string{`{"a": 1}`, `{"a": 1.0}`, `{"a": [0, 1]}`}, []string{`{}`, `{"a": "1"}`, `{"a": [[1]]}`, `{"a": true}`}},
		{`{"a": null}`, []string{`{}`, `{"a": null}`, `{"a": [null]}`}, []string{`{"a": 0}`, `{"a": []}`}},
		// A missing field matches null in an array of documents, but not in an array of
		// scalars.
		{`{"a.b": null}`, []string{`{}`, `{"a": {}}`, `{"a": 5}`, `{"a": [{}]}`, `{"a": [{"b": 1}, {"c": 1}]}`}, []string{`{"a": []}`, `{"a": [null]}`, `{"a": [1, 2]}`, `{"a": {"b": 1}}`}},
		{`{"a": {"b": 1}}`, []string{`{"a": {"b": 1}}`, `{"a": [{"b": 1}]}`}, []string{`{"a": {"b": 1, "c": 2}}`, `{"a": {}}`}},
		{`{"a": [1, 2]}`, []string{`{"a": [1, 2]}`, `{"a": [[1, 2]]}`}, []string{`{"a": [2, 1]}`, `{"a": 1}`}},
		{`{"a": {"$gt": 1}}`, []string{`{"a": 2}`, `{"a": [0, 2]}`}, []string{`{"a": 1}`, `{"a": "x"}`, `{"a": null}`, `{}`}},
		{`{"a": {"$gte": 2, "$lt": 3}}`, []string{`{"a": 2}`, `{"a": [1, 5]}`}, []string{`{"a": 3}`, `{"a": [5]}`}},
		{`{"a": {"$gte": null}}`, []string{`{}`, `{"a": null}`}, []string{`{"a": 1}`}},
		{`{"a": {"$ne": 1}}`, []string{`{}`, `{"a": 2}`}, []string{`{"a": 1}`, `{"a": [2, 1]}`}},
		{`{"a": {"$in": [1, null, "x"]}}`, []string{`{"a": 1}`, `{}`, `{"a": ["x"]}`}, []string{`{"a": 2}`, `{"a": []}`}},
		{`{"a": {"$in": [{"$regularExpression": {"pattern": "^x", "options": ""}}]}}`, []string{`{"a": "xy"}`}, []string{`{"a": "yx"}`}},
		{`{"a": {"$nin": [1, 2]}}`, []string{`{}`, `{"a": 3}`}, []string{`{"a": [3, 2]}`}},
		{`{"a": {"$exists": true}}`, []string{`{"a": null}`, `{"a": []}`}, []string{`{}`}},
		{`{"a.b": {"$exists": false}}`, []string{`{}`, `{"a": 1}`, `{"a": [{"c": 1}]}`}, []string{`{"a": [{"c": 1}, {"b": 1}]}`}},
		{`{"a": {"$type": "string"}}`, []string{`{"a": "x"}`, `{"a": [1, "x"]}`}, []string{`{"a": 1}`, `{}`}},
		{`{"a": {"$type": "number"}}`, []string{`{"a": 1}`, `{"a": 1.5}`, `{"a": {"$numberLong": "1"}}`}, []string{`{"a": "1"}`}},
		{`{"a": {"$type": ["null", 2]}}`, []string{`{"a": null}`, `{"a": "x"}`}, []string{`{}`, `{"a": 1}`}},
		{`{"a": {"$type": "array"}}`, []string{`{"a": []}`, `{"a": [1]}`}, []string{`{"a": 1}`}},
		{`{"a": {"$size": 2}}`, []string{`{"a": [1, 2]}`}, []string{`{"a": [1]}`, `{"a": 2}`, `{"a": [[1, 2]]}`, `{}`}},
		{`{"a": {"$mod": [4, 1]}}`, []string{`{"a": 5}`, `{"a": 5.9}`}, []string{`{"a": 4}`, `{"a": "5"}`}},
		{`{"a": {"$all": [1, 2]}}`, []string{`{"a": [2, 3, 1]}`}, []string{`{"a": [1]}`, `{"a": 1}`}},
		{`{"a": {"$all": [1]}}`, []string{`{"a": 1}`}, []string{`{"a": 2}`}},
		{`{"a": {"$all": []}}`, nil, []string{`{}`, `{"a": []}`}},
		{`{"a": {"$all": [{"$elemMatch": {"x": 1}}, {"$elemMatch": {"x": 2}}]}}`, []string{`{"a": [{"x": 1}, {"x": 2}]}`}, []string{`{"a": [{"x": 1}]}`}},
		{`{"a": {"$elemMatch": {"x": 1, "y": 2}}}`, []string{`{"a": [{"x": 1, "y": 2}]}`}, []string{`{"a": [{"x": 1}, {"y": 2}]}`, `{"a": {"x": 1, "y": 2}}`}},
		{`{"a": {"$elemMatch": {"$gt": 1, "$lt": 3}}}`, []string{`{"a": [0, 2]}`}, []string{`{"a": [1, 3]}`, `{"a": 2}`, `{"a": [[2]]}`}},
		{`{"a": {"$elemMatch": {"$or": [{"x": 1}, {"y": 1}]}}}`, []string{`{"a": [{"y": 1}]}`}, []string{`{"a": [{"z": 1}]}`}},
		{`{"a": {"$not": {"$gt": 1}}}`, []string{`{}`, `{"a": 1}`, `{"a": "x"}`}, []string{`{"a": 2}`}},
		{`{"a": {"$not": {"$regularExpression": {"pattern": "x", "options": ""}}}}`, []string{`{"a": "y"}`, `{"a": 1}`}, []string{`{"a": "axb"}`}},
		{`{"a": {"$regularExpression": {"pattern": "^AB", "options": "i"}}}`, []string{`{"a": "abc"}`}, []string{`{"a": "cab"}`, `{"a": 1}`}},
		{`{"a": {"$regex": "b$", "$options": "m"}}`, []string{`{"a": "ab\nc"}`}, []string{`{"a": "abc"}`}},
		{`{"$or": [{"a": 1}, {"b": 1}]}`, []string{`{"a": 1}`, `{"b": 1}`}, []string{`{}`}},
		{`{"$and": [{"a": 1}, {"b": 1}], "c": 1}`, []string{`{"a": 1, "b": 1, "c": 1}`}, []string{`{"a": 1, "b": 1}`}},
		{`{"$nor": [{"a": 1}, {"b": 1}]}`, []string{`{}`}, []string{`{"a": 1}`}},
		{`{"a.0": 1}`, []string{`{"a": [1, 2]}`, `{"a": {"0": 1}}`}, []string{`{"a": [2, 1]}`}},
		{`{"a.0.b": 1}`, []string{`{"a": [{"b": 1}]}`}, []string{`{"a": [{"b": 2}, {"b": 1}]}`}},
		{`{"a.b": 1}`, []string{`{"a": [{"b": 2}, {"b": 1}]}`, `{"a": [{"b": [1]}]}`}, []string{`{"a": [[{"b": 1}]]}`}},
		{`{"$expr": {"$gt": ["$a", "$b"]}}`, []string{`{"a": 2, "b": 1}`, `{"a": "x", "b": 1}`}, []string{`{"a": 1, "b": 1}`}},
		{`{"$expr": {"$eq": ["$a", null]}}`, []string{`{"a": null}`}, []string{`{}`}},
		{`{"a": {"$lt": {"$maxKey": 1}}}`, []string{`{"a": 1}`, `{"a": "x"}`}, []string{`{"a": {"$maxKey": 1}}`}},
		{`{"$comment": "x", "a": {"$eq": 1, "$comment": "y"}}`, []string{`{"a": 1}`}, []string{`{"a": 2}`}},
	}
	for _, tt := range tests {
		m, err := query.Compile(bsongen.Parse(t, tt.filter), expr.Vars{})
		if err != nil {
			t.Errorf("%s: %v", tt.filter, err)
			continue
		}
		for want, docs := range map[bool][]string{true: tt.yes, false: tt.no} {
			for _, doc := range docs {
				got, err := m.Match(bsongen.Parse(t, doc))
				if err != nil || got != want {
					t.Errorf("%s on %s: %v, %v; want %v", tt.filter, doc, got, err, want)
				}
			}
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		filter string
		code   mongoerr.Code
		says   string
	}{
		{`{"a": {"$bogus": 1}}`, mongoerr.BadValue, "unknown operator: $bogus"},
		{`{"$bogus": 1}`, mongoerr.BadValue, "unknown top level operator: $bogus. If you have a field name that starts with a '$' symbol, consider using $getField or $setField."},
		{`{"$where": "x"}`, mongoerr.NotImplemented, "mongoemu does not support the query operator $where"},
		{`{"a": {"$geoWithin": {}}}`, mongoerr.NotImplemented, "mongoemu does not support the query operator $geoWithin"},
		{`{"$or": []}`, mongoerr.BadValue, "$and/$or/$nor must be a nonempty array"},
		{`{"$or": {"a": 1}}`, mongoerr.BadValue, "$or must be an array"},
		{`{"a": {"$in": 1}}`, mongoerr.BadValue, "$in needs an array"},
		{`{"a": {"$in": [{"$gt": 1}]}}`, mongoerr.BadValue, "cannot nest $ under $in"},
		{`{"a": {"$not": 1}}`, mongoerr.BadValue, "$not needs a regex or a document"},
		{`{"a": {"$options": "i"}}`, mongoerr.BadValue, "$options needs a $regex"},
		{`{"a": {"$regex": "(?=x)"}}`, 51091, ""},
		{`{"a": {"$size": -1}}`, mongoerr.BadValue, "Failed to parse $size. Expected a non-negative number in: -1"},
		{`{"a": {"$mod": [0, 1]}}`, mongoerr.BadValue, "divisor cannot be 0"},
		{`{"a": {"$type": "strange"}}`, mongoerr.BadValue, "Unknown type name alias: strange"},
		{`{"$expr": {"$bogus": 1}}`, mongoerr.InvalidPipelineOperator, "Unrecognized expression '$bogus'"},
	}
	for _, tt := range tests {
		_, err := query.Compile(bsongen.Parse(t, tt.filter), expr.Vars{})
		if !mongoerr.Has(err, tt.code) || tt.says != "" && mongoerr.As(err).Message != tt.says {
			t.Errorf("%s: %v", tt.filter, err)
		}
	}
}
