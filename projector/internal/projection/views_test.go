package projection_test

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

const shopViews = `
views:
  - name: customerOrders
    collection: customerOrders
    from:
      - aggregateType: Customer
        key: aggregateId
        keep: fields
        on:
          Named: {set: {name: payload.name}}
          Tagged: {set: {tag: payload.name}}
          Gone: {delete: true}
      - aggregateType: Order
        key: state.customer
        as: orders
        on:
          Placed: {set: {customer: "payload.?customer", cents: payload.cents, at: payload.at}, push: {skus: payload.sku}}
          Moved: {set: {customer: "payload.?customer"}}
          Paid: {set: {paid: "true"}, inc: {cents: payload.cents}}
          Gone: {delete: true}
        totals:
          cents: {sum: part.cents, where: part.paid != true}
          paid: {count: true, where: part.paid == true}
          first: {min: part.at}
          last: {max: part.at}
          skus: {set: part.skus}
          bySku: {count: true, by: "part.?skus[?0]"}
          above: {sum: "part.cents == null ? 0 : part.cents - 7", by: "part.paid == null ? part.customer : null"}
    totals:
      all: {count: true}
      byType: {count: true, by: aggregateType}
  - name: productSales
    collection: productSales
    from:
      - aggregateType: Order
        each: state.lines
        key: element.sku
        as: lines
        on:
          Placed: {push: {lines: "{'sku': payload.sku, 'cents': payload.cents, 'amount': payload.cents > 9.0 ? payload.cents : decimal(string(payload.cents)) / 2}"}}
          Gone: {delete: true}
    totals:
      sold: {count: true}
      cents: {sum: element.cents}
      amount: {sum: element.amount, where: element.cents > 6}
      exact: {sum: "decimal(element.amount) - decimal(7)"}
      balance: {sum: "element.cents > 9 ? -7 : element.amount", by: "element.cents > 6 ? 'a.b' : '$c'"}
      byCents: {sum: decimal(element.cents), by: element.cents}
  - name: ordersByDate
    collection: ordersByDate
    as: {orders: {list: true, sort: -at}}
    from:
      - aggregateType: Customer
        key: aggregateId
        keep: fields
        on:
          Named: {set: {name: payload.name}}
          Gone: {delete: true}
      - aggregateType: Order
        key: state.customer
        on:
          Placed: {set: {customer: "payload.?customer", at: "payload.cents > 6 ? optional.of(payload.at) : optional.none()"}}
          Moved: {set: {customer: "payload.?customer"}}
          Gone: {delete: true}
  - name: salesByPrice
    collection: salesByPrice
    from:
      - aggregateType: Order
        each: state.lines
        key: element.sku
        as: {lines: {list: true, sort: cents}}
        on:
          Placed: {push: {lines: "{'sku': payload.sku, 'cents': payload.cents, 'at': payload.at}"}}
          Gone: {delete: true}
  - name: latest
    collection: latest
    from:
      - aggregateType: Customer
        key: "state.?tag.orValue('none')"
        keep: fields
        on:
          Named: {set: {name: payload.name, shared: payload.name}}
          Tagged: {set: {tag: payload.name}}
          Gone: {delete: true}
      - aggregateType: Order
        each: state.skus
        key: element.sku
        keep: fields
        on:
          Placed: {push: {skus: "{'sku': payload.sku, 'shared': payload.cents}"}}
          Gone: {delete: true}
`

// shop returns the views of shopViews.
func shop(t *testing.T) []*projection.Projection {
	t.Helper()
	projections := projectiontest.All(t, shopViews)
	return projections
}

// pipeline keeps the parts and the documents of a view, as the store does.
type pipeline struct {
	p         *projection.Projection
	parts     map[string]bson.Raw
	watermark map[string]int64
	documents map[string]bson.Raw
}

func newPipeline(p *projection.Projection) *pipeline {
	return &pipeline{p: p, parts: map[string]bson.Raw{}, watermark: map[string]int64{}, documents: map[string]bson.Raw{}}
}

// fold folds events of one aggregate, and returns the change of its part.
func (l *pipeline) fold(t interface {
	Helper()
	Fatalf(string, ...any)
}, events []*event.Event) model.PartChange {
	t.Helper()
	id := events[0].AggregateID
	f := l.p.Fold(l.parts[id], events)
	if f.Err != nil {
		t.Fatalf("fold: %v", f.Err)
	}
	change := model.PartChange{AggregateID: id, Before: l.parts[id], After: f.Document}
	l.parts[id], l.watermark[id] = f.Document, events[len(events)-1].EventID
	return change
}

// merge brings the documents to the present parts after changes.
func (l *pipeline) merge(t interface {
	Helper()
	Fatalf(string, ...any)
}, changes []model.PartChange) {
	t.Helper()
	v := l.p.View()
	of := map[string][]model.PartChange{}
	for _, c := range changes {
		keys := v.Keys(c.Before)
		for _, key := range v.Keys(c.After) {
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
		for _, key := range keys {
			of[key] = append(of[key], c)
		}
	}
	for key, changes := range of {
		next, ok, err := v.Merge(key, l.documents[key], changes)
		if err != nil {
			t.Fatalf("merge %s: %v", key, err)
		}
		if !ok {
			next = l.whole(t, key)
		}
		if l.documents[key] = next; next == nil {
			delete(l.documents, key)
		}
	}
}

func (l *pipeline) whole(t interface {
	Helper()
	Fatalf(string, ...any)
}, key string) bson.Raw {
	t.Helper()
	var parts []model.Part
	for id, part := range l.parts {
		if slices.Contains(l.p.View().Keys(part), key) {
			parts = append(parts, model.Part{AggregateID: id, Document: part})
		}
	}
	whole, err := model.Whole(l.p.View(), key, parts)
	if err != nil {
		t.Fatalf("whole %s: %v", key, err)
	}
	return whole
}

// history draws the events of some aggregates.
func history(t *rapid.T) map[string][]*event.Event {
	histories := map[string][]*event.Event{}
	customers := []any{"c-1", "c-2", int64(3), nil}
	for i := range rapid.IntRange(1, 6).Draw(t, "orders") {
		id := fmt.Sprintf("o-%d", i)
		for n := range rapid.IntRange(1, 6).Draw(t, "events") {
			kind := "Placed"
			if n > 0 {
				kind = rapid.SampledFrom([]string{"Placed", "Moved", "Paid", "Gone"}).Draw(t, "kind")
			}
			payload := bson.D{
				{Key: "cents", Value: rapid.SampledFrom([]any{int32(5), int64(7), 10.0}).Draw(t, "cents")},
				{Key: "sku", Value: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "sku")},
				{Key: "at", Value: bson.DateTime(rapid.Int64Range(0, 5).Draw(t, "at"))},
			}
			if customer := rapid.SampledFrom(customers).Draw(t, "customer"); customer != nil {
				payload = append(payload, bson.E{Key: "customer", Value: customer})
			}
			histories[id] = append(histories[id], viewEvent("Order", id, int64(n+1), kind, payload))
		}
	}
	for _, id := range []string{"c-1", "c-2", "3"} {
		for n := range rapid.IntRange(0, 3).Draw(t, "events") {
			kind := rapid.SampledFrom([]string{"Named", "Tagged", "Gone"}).Draw(t, "kind")
			histories[id] = append(histories[id], viewEvent("Customer", id, int64(n+1), kind, bson.D{{Key: "name", Value: rapid.StringMatching("[a-c]").Draw(t, "name")}}))
		}
	}
	return histories
}

func viewEvent(aggregateType, id string, n int64, eventType string, payload bson.D) *event.Event {
	return &event.Event{
		Keys:    event.Keys{AggregateID: id, AggregateType: aggregateType, EventID: n, EventType: eventType},
		Payload: testkit.Value(payload),
	}
}

// TestViewDocumentsDependOnPartsOnly interleaves the events of several aggregates in batches of
// any size. The documents always equal those of the parts, byte for byte, and in the end those
// of the aggregates one after the other.
func TestViewDocumentsDependOnPartsOnly(t *testing.T) {
	t.Parallel()
	projections := shop(t)
	rapid.Check(t, func(t *rapid.T) {
		histories := history(t)
		for _, p := range projections {
			l, left := newPipeline(p), maps.Clone(histories)
			for len(left) > 0 {
				var changes []model.PartChange
				for range rapid.IntRange(1, 3).Draw(t, "group") {
					ids := slices.Sorted(maps.Keys(left))
					if len(ids) == 0 {
						break
					}
					id := rapid.SampledFrom(ids).Draw(t, "aggregate")
					if slices.ContainsFunc(changes, func(c model.PartChange) bool { return c.AggregateID == id }) {
						continue
					}
					n := rapid.IntRange(1, len(left[id])).Draw(t, "batch")
					changes = append(changes, l.fold(t, left[id][:n]))
					if left[id] = left[id][n:]; len(left[id]) == 0 {
						delete(left, id)
					}
				}
				l.merge(t, changes)
				for key, document := range l.documents {
					if whole := l.whole(t, key); !bytes.Equal(document, whole) {
						t.Fatalf("%s is\n%s\nand the parts give\n%s", key, document, whole)
					}
				}
			}
			alone := newPipeline(p)
			for _, id := range slices.Sorted(maps.Keys(histories)) {
				if p.Concerns(histories[id][0]) {
					alone.merge(t, []model.PartChange{alone.fold(t, histories[id])})
				}
			}
			if len(l.documents) != len(alone.documents) {
				t.Fatalf("%d documents, and %d if the aggregates are folded alone", len(l.documents), len(alone.documents))
			}
			for key, document := range l.documents {
				if !bytes.Equal(document, alone.documents[key]) {
					t.Fatalf("%s is\n%s\nand if the aggregates are folded alone\n%s", key, document, alone.documents[key])
				}
			}
		}
	})
}

// totalsOf is a view with these totals, whose one document has all parts.
func totalsOf(t *testing.T, totals string) *projection.Projection {
	t.Helper()
	return projectiontest.One(t, `
views:
  - name: v
    collection: v
    from:
      - aggregateType: A
        key: "'k'"
        on:
          E: {set: {x: payload.x}}
          Gone: {delete: true}
        totals: `+totals)
}

// TestSumOfDecimalsNeedsOnlyThePartThatGoes takes parts away. All others must be read only if it
// cannot be known otherwise whether the sum is still a Decimal128.
func TestSumOfDecimalsNeedsOnlyThePartThatGoes(t *testing.T) {
	t.Parallel()
	p := totalsOf(t, `{all: {sum: part.x}, exact: {sum: decimal(part.x)}}`)
	for _, test := range []struct {
		name   string
		values []any // all but the last two go
		alone  bool
		want   string
	}{
		{"cents are left", []any{decimal(t, "1.5"), decimal(t, "2.25"), 3}, true, `"all": {"$numberDecimal":"5.25"},"exact": {"$numberDecimal":"5.25"}`},
		{"whole numbers are left", []any{3, 2, 2}, true, `"all": {"$numberLong":"4"},"exact": {"$numberDecimal":"4"}`},
		{"a whole Decimal128 may be left", []any{decimal(t, "1.5"), decimal(t, "2"), 3}, false, `"all": {"$numberDecimal":"5"},"exact": {"$numberDecimal":"5"}`},
		{"none may be left", []any{decimal(t, "1.5"), 2, 3}, false, `"all": {"$numberLong":"5"},"exact": {"$numberDecimal":"5"}`},
		{"a sum is too long until the second part goes", []any{decimal(t, "-1E+33"), decimal(t, "1E+33"), decimal(t, "0.5"), 1}, false, `"all": {"$numberDecimal":"1.5"},"exact": {"$numberDecimal":"1.5"}`},
		{"a sum is too large until the second part goes", []any{-2, math.MaxInt64, 1, 1}, false, `"all": {"$numberLong":"2"},"exact": {"$numberDecimal":"2"}`},
		{"their sum is 0", []any{decimal(t, "1.5"), decimal(t, "0.5"), decimal(t, "-0.5")}, false, `"all": {"$numberDecimal":"0"},"exact": {"$numberDecimal":"0"}`},
	} {
		l := newPipeline(p)
		for i, x := range test.values {
			l.merge(t, []model.PartChange{l.fold(t, []*event.Event{viewEvent("A", fmt.Sprint(i), 1, "E", bson.D{{Key: "x", Value: x}})})})
		}
		var gone []model.PartChange
		for i := range len(test.values) - 2 {
			gone = append(gone, l.fold(t, []*event.Event{viewEvent("A", fmt.Sprint(i), 2, "Gone", bson.D{})}))
		}
		if _, alone, err := p.View().Merge("k", l.documents["k"], gone); alone != test.alone || err != nil {
			t.Errorf("%s: %t, %v", test.name, alone, err)
		}
		l.merge(t, gone)
		if got := l.documents["k"].String(); got != `{"parts": {"$numberLong":"2"},`+test.want+"}" {
			t.Errorf("%s: %s", test.name, got)
		}
	}
}

// TestListOfDecimalsMayHaveOtherNumbers has an expression that is a Decimal128 only by CEL's types.
func TestListOfDecimalsMayHaveOtherNumbers(t *testing.T) {
	t.Parallel()
	p := totalsOf(t, `{s: {sum: "([decimal(0)] + part.x)[1]"}}`)
	l := newPipeline(p)
	for i, x := range []any{bson.NewDecimal128(0x3040000000000000, 7), 2} {
		l.merge(t, []model.PartChange{l.fold(t, []*event.Event{viewEvent("A", fmt.Sprint(i), 1, "E", bson.D{{Key: "x", Value: bson.A{x}}})})})
	}
	l.merge(t, []model.PartChange{l.fold(t, []*event.Event{viewEvent("A", "0", 2, "Gone", bson.D{})})})
	if got, want := l.documents["k"].String(), `{"parts": {"$numberLong":"1"},"s": {"$numberLong":"2"}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestViewDocument shows the document of a view.
func TestViewDocument(t *testing.T) {
	t.Parallel()
	projections := shop(t)
	l := newPipeline(projections[0])
	changes := []model.PartChange{
		l.fold(t, []*event.Event{viewEvent("Customer", "c-1", 1, "Named", bson.D{{Key: "name", Value: "Ann"}})}),
		l.fold(t, []*event.Event{viewEvent("Order", "o-2", 1, "Placed", bson.D{{Key: "customer", Value: "c-1"}, {Key: "cents", Value: 500}, {Key: "sku", Value: "b"}, {Key: "at", Value: bson.DateTime(2)}})}),
		l.fold(t, []*event.Event{
			viewEvent("Order", "o-1", 1, "Placed", bson.D{{Key: "customer", Value: "c-1"}, {Key: "cents", Value: 100}, {Key: "sku", Value: "a"}, {Key: "at", Value: bson.DateTime(1)}}),
			viewEvent("Order", "o-1", 2, "Paid", bson.D{{Key: "cents", Value: 1}}),
		}),
	}
	l.merge(t, changes)
	want := `{"parts": {"$numberLong":"3"},"name": "Ann","orders": {` +
		`"o-1": {"at": {"$date":{"$numberLong":"1"}},"cents": {"$numberLong":"101"},"customer": "c-1","paid": true,"skus": ["a"]},` +
		`"o-2": {"at": {"$date":{"$numberLong":"2"}},"cents": {"$numberLong":"500"},"customer": "c-1","skus": ["b"]}},` +
		`"above": {"c-1": {"$numberLong":"493"}},"all": {"$numberLong":"3"},"bySku": {"a": {"$numberLong":"1"},"b": {"$numberLong":"1"}},` +
		`"byType": {"Customer": {"$numberLong":"1"},"Order": {"$numberLong":"2"}},"cents": {"$numberLong":"500"},"first": {"$date":{"$numberLong":"1"}},"last": {"$date":{"$numberLong":"2"}},"paid": {"$numberLong":"1"},"skus": ["a","b"]}`
	if got := l.documents["c-1"].String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestViewDefinition compiles stored definitions of views.
func TestViewDefinition(t *testing.T) {
	t.Parallel()
	projections := shop(t)
	for _, p := range projections {
		again, err := projection.Compile(p.Definition())
		if err != nil {
			t.Fatalf("%v\n%s", err, p.Definition())
		}
		if redefined := projection.Redefine(again); redefined != p.Definition() {
			t.Errorf("the definition is\n%s\nand after compiling it\n%s", p.Definition(), redefined)
		}
		scope, err := projection.ScopeOf(p.Definition())
		if err != nil || !scope.View || !reflect.DeepEqual(scope.Sources, p.Sources()) {
			t.Errorf("scope %+v, %v", scope, err)
		}
	}
}

// TestLeastOfValuesWithoutOrder has a document whose parts have a date and a text, one after the
// other and together.
func TestLeastOfValuesWithoutOrder(t *testing.T) {
	t.Parallel()
	p := totalsOf(t, `{first: {min: part.x}}`)
	change := func(id string, before bson.Raw, x any) model.PartChange {
		f := p.Fold(before, []*event.Event{viewEvent("A", id, 1, "E", bson.D{{Key: "x", Value: x}})})
		if f.Err != nil {
			t.Fatal(f.Err)
		}
		return model.PartChange{AggregateID: id, Before: before, After: f.Document}
	}
	a := change("a", nil, time.Unix(0, 0))
	document, ok, err := p.View().Merge("k", nil, []model.PartChange{a})
	if err != nil || !ok {
		t.Fatalf("merge the first part: %v, %v", ok, err)
	}
	b := change("b", nil, "soon")
	for _, changes := range [][]model.PartChange{{b}, {change("a", a.After, "soon")}} {
		if next, ok, err := p.View().Merge("k", document, changes); ok || err != nil {
			t.Errorf("a text beside a date, or instead of it, makes %s (%v) without a look at all parts", next, err)
		}
	}
	all := p.View().Begin("k")
	if err := all.Add(model.Part{AggregateID: "a", Document: a.After}); err != nil {
		t.Fatal(err)
	}
	if err := all.Add(model.Part{AggregateID: "b", Document: b.After}); err == nil || !strings.Contains(err.Error(), "total first: the parts of the document have values without a common order") {
		t.Errorf("the least of a date and a text gives the error %v", err)
	}
}
