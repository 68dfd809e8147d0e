package aggregate_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/aggregate"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsongen"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/expr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

// batches returns at most two documents at a time, to test stages across batch borders.
type batches struct{ docs [][]byte }

func (b *batches) Next(context.Context, int, int) ([][]byte, bool, error) {
	n := min(2, len(b.docs))
	docs := b.docs[:n]
	b.docs = b.docs[n:]
	return docs, len(b.docs) == 0, nil
}

func compile(t *testing.T, pipeline string) (*aggregate.Pipeline, error) {
	t.Helper()
	v, _ := bsonraw.Lookup(bsongen.Parse(t, `{"p": `+pipeline+`}`), "p")
	stages, err := aggregate.Stages(v)
	if err != nil {
		return nil, err
	}
	return aggregate.Compile(stages, expr.Vars{})
}

func run(t *testing.T, p *aggregate.Pipeline, batch, maxBytes int, docs ...string) (string, error) {
	t.Helper()
	src := &batches{}
	for _, d := range docs {
		src.docs = append(src.docs, bsongen.Parse(t, d))
	}
	out := p.Run(src)
	var got []string
	for {
		docs, done, err := out.Next(t.Context(), batch, maxBytes)
		if err != nil {
			return "", err
		}
		for _, d := range docs {
			got = append(got, bsonraw.FormatDocument(d))
		}
		if done {
			return strings.Join(got, " "), nil
		}
	}
}

// A $skip precedes the stages, so that none of them moves into the query.
func TestStages(t *testing.T) {
	t.Parallel()
	docs := []string{
		`{"_id": 1, "g": "x", "n": 1, "a": [1, 2], "o": {"k": 1}}`, `{"_id": 2, "g": "y", "n": 2.5, "a": [], "o": {"l": 2}}`,
		`{"_id": 3, "g": "x", "n": "text", "a": null}`, `{"_id": 4, "n": 4, "a": 7, "o": {"k": 9}}`,
		`{"_id": 5, "g": null, "n": {"$numberLong": "5"}}`,
	}
	for pipeline, want := range map[string]string{
		`[{"$match": {"n": {"$gt": 2}}}, {"$project": {"n": 1}}]`:                                  `{ _id: 2, n: 2.5 } { _id: 4, n: 4 } { _id: 5, n: 5 }`,
		`[{"$sort": {"g": -1, "_id": 1}}, {"$project": {"g": 1}}]`:                                 `{ _id: 2, g: "y" } { _id: 1, g: "x" } { _id: 3, g: "x" } { _id: 4 } { _id: 5, g: null }`,
		`[{"$limit": 3}, {"$skip": 1}, {"$project": {"_id": 1}}]`:                                  `{ _id: 2 } { _id: 3 }`,
		`[{"$limit": 2}, {"$sort": {"_id": -1}}, {"$project": {"_id": 1}}]`:                        `{ _id: 2 } { _id: 1 }`,
		`[{"$sort": {"_id": -1}}, {"$limit": 2}, {"$project": {"_id": 1}}]`:                        `{ _id: 5 } { _id: 4 }`,
		`[{"$group": {"_id": "$g", "n": {"$sum": 1}}}]`:                                            `{ _id: "x", n: 2 } { _id: "y", n: 1 } { _id: null, n: 2 }`,
		`[{"$group": {"_id": null, "sum": {"$sum": "$n"}, "c": {"$count": {}}}}]`:                  `{ _id: null, sum: 12.5, c: 5 }`,
		`[{"$group": {"_id": null, "min": {"$min": "$n"}, "max": {"$max": "$n"}}}]`:                `{ _id: null, min: 1, max: "text" }`,
		`[{"$group": {"_id": {"g": "$g"}, "ids": {"$push": "$_id"}}}, {"$match": {"_id.g": "x"}}]`: `{ _id: { g: "x" }, ids: [ 1, 3 ] }`,
		`[{"$group": {"_id": null, "s": {"$addToSet": "$g"}}}]`:                                    `{ _id: null, s: [ "x", "y", null ] }`,
		`[{"$group": {"_id": null, "p": {"$push": "$none"}}}]`:                                     `{ _id: null, p: [] }`,
	} {
		for _, by := range []struct{ docs, bytes int }{{0, 1 << 20}, {1, 1 << 20}, {100, 1 << 20}, {100, 10}} {
			p, err := compile(t, `[{"$skip": 0}, `+pipeline[1:])
			if err != nil {
				t.Errorf("%s: %v", pipeline, err)
				break
			}
			if got, err := run(t, p, by.docs, by.bytes, docs...); err != nil || got != want {
				t.Errorf("%s by %+v: %v\n got %s\nwant %s", pipeline, by, err, got, want)
			}
		}
	}
}

func TestSampleGivesEachDocumentOnce(t *testing.T) {
	t.Parallel()
	docs := make([]string, 50)
	for i := range docs {
		docs[i] = fmt.Sprintf(`{"_id": %d}`, i)
	}
	for _, size := range []int{1, 20, 50, 80} {
		p, err := compile(t, fmt.Sprintf(`[{"$sample": {"size": %d}}]`, size))
		if err != nil {
			t.Fatal(err)
		}
		got, err := run(t, p, 7, 1<<20, docs...)
		if err != nil {
			t.Fatal(err)
		}
		given := strings.Split(got, "} {")
		seen := map[string]bool{}
		for _, document := range given {
			seen[strings.Trim(document, "{ }")] = true
		}
		if want := min(size, len(docs)); len(given) != want || len(seen) != want {
			t.Errorf("a sample of %d gives %d documents, %d different", size, len(given), len(seen))
		}
	}
}

func TestLeadingStagesMoveIntoTheQuery(t *testing.T) {
	t.Parallel()
	p, err := compile(t, `[{"$match": {"a": 1}}, {"$sort": {"b": -1}}, {"$limit": 3}, {"$match": {"c": 1}}]`)
	if err != nil {
		t.Fatal(err)
	}
	if p.Match.All() || len(p.Order) != 1 || p.Limit != 3 {
		t.Errorf("%+v", p)
	}
	if got, err := run(t, p, 10, 1<<20, `{"a": 1, "c": 1}`, `{"a": 1, "c": 2}`); err != nil || got != `{ a: 1, c: 1 }` {
		t.Errorf("%s, %v", got, err)
	}
	// A $sort after a $limit must sort only the limited documents, so it must not move
	// into the query.
	if p, err = compile(t, `[{"$limit": 3}, {"$sort": {"b": -1}}]`); err != nil || p.Order != nil || p.Limit != 3 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestUnsupportedStagesAreRefused(t *testing.T) {
	t.Parallel()
	for pipeline, code := range map[string]mongoerr.Code{
		`1`: mongoerr.TypeMismatch, `[1]`: mongoerr.TypeMismatch, `[{}]`: 40323, `[{"$a": 1, "$b": 1}]`: 40323, `[{"$strange": 1}]`: 40324,
		`[{"$facet": {}}]`: mongoerr.NotImplemented, `[{"$out": "x"}]`: mongoerr.NotImplemented, `[{"$limit": 1}, {"$changeStream": {}}]`: 40602, `[{"$match": 1}]`: 15959,
		`[{"$sort": {}}]`: 15976, `[{"$skip": 0}, {"$sort": {"a": 2}}]`: 15975, `[{"$sort": {"$natural": 1}}]`: mongoerr.NotImplemented, `[{"$limit": 0}]`: 5107201, `[{"$skip": -1}]`: 5107201,
		`[{"$count": "n"}]`: mongoerr.NotImplemented, `[{"$group": 1}]`: 15947, `[{"$group": {"a": {"$sum": 1}}}]`: 15955, `[{"$group": {"_id": 1, "a.b": {"$sum": 1}}}]`: 40235,
		`[{"$group": {"_id": 1, "a": 1}}]`: 40234, `[{"$group": {"_id": 1, "a": {"$strange": 1}}}]`: 15952, `[{"$group": {"_id": 1, "a": {"$median": 1}}}]`: mongoerr.NotImplemented,
		`[{"$group": {"_id": 1, "a": {"$count": 1}}}]`:  mongoerr.TypeMismatch,
		`[{"$group": {"_id": 1, "a": {"$sum": "$d"}}}]`: mongoerr.NotImplemented, `[{"$group": {"_id": 1, "a": {"$avg": "$d"}}}]`: mongoerr.NotImplemented, `[{"$unwind": "$a"}]`: mongoerr.NotImplemented,
	} {
		p, err := compile(t, pipeline)
		if err == nil {
			_, err = run(t, p, 1, 1, `{"_id": 1, "d": {"$numberDecimal": "1"}}`)
		}
		if !mongoerr.Has(err, code) {
			t.Errorf("%s: %v, want code %d", pipeline, err, code)
		}
	}
}
