package projection_test

import (
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

const loans = `
views:
  - name: members
    collection: members
    from:
      - aggregateType: Loan
        key: state.member
        as: {loans: {list: true, sort: -dueOn}}
        on:
          Lent: {set: {member: payload.member, dueOn: "payload.?dueOn"}}
`

// TestListOfParts shows the order of a list, and what parks an aggregate.
func TestListOfParts(t *testing.T) {
	t.Parallel()
	l := newPipeline(projectiontest.One(t, loans))
	lend := func(id string, dueOn any) {
		l.merge(t, []model.PartChange{l.fold(t, lent(id, dueOn))})
	}
	lend("l.$1", nil)
	lend("b", int32(7))
	lend("a", 7.0)
	lend("c", int32(9))
	want := `{"parts": {"$numberLong":"4"},"loans": [` +
		`{"aggregateId": "c","dueOn": {"$numberLong":"9"},"member": "ann"},` +
		`{"aggregateId": "a","dueOn": {"$numberDouble":"7.0"},"member": "ann"},` +
		`{"aggregateId": "b","dueOn": {"$numberLong":"7"},"member": "ann"},` +
		`{"aggregateId": "l.$1","member": "ann"}]}`
	if got := l.documents["ann"].String(); got != want {
		t.Errorf("the document is\n%s\nwant\n%s", got, want)
	}
	changed := l.fold(t, lent("d", "2026-06-01"))
	if _, _, err := l.p.View().Merge("ann", l.documents["ann"], []model.PartChange{changed}); err == nil || !strings.Contains(err.Error(), "list loans: dueOn is long in c and string in d, which have no common order") {
		t.Errorf("a date as a text: %v", err)
	}
	damaged := bson.Raw(strings.Replace(string(l.documents["ann"]), "aggregateId", "somebodyNew", 1))
	if next, ok, err := l.p.View().Merge("ann", damaged, nil); ok || next != nil || err != nil {
		t.Errorf("a list that somebody has changed is not made of its parts: %s, %t, %v", next, ok, err)
	}
}

// lent is the only event of a loan; dueOn can be nil.
func lent(id string, dueOn any) []*event.Event {
	payload := bson.D{{Key: "member", Value: "ann"}}
	if dueOn != nil {
		payload = append(payload, bson.E{Key: "dueOn", Value: dueOn})
	}
	return []*event.Event{viewEvent("Loan", id, 1, "Lent", payload)}
}

// TestListRefusesElements has elements of one aggregate that a list cannot have.
func TestListRefusesElements(t *testing.T) {
	t.Parallel()
	p := projectiontest.One(t, strings.NewReplacer("key: state.member", "key: \"'k'\"\n        each: state.dueOn", "sort: -dueOn", "sort: at").Replace(loans))
	for _, test := range []struct {
		elements bson.A
		says     string
	}{
		{bson.A{bson.D{{Key: "at", Value: 1}}, bson.D{}, bson.D{{Key: "at", Value: 2.5}}}, ""},
		{bson.A{7}, "the element is long, and the elements of a list are documents"},
		{bson.A{bson.D{{Key: "aggregateId", Value: "a"}}}, "the element has a field aggregateId, which is where a list has the id of the aggregate"},
		{bson.A{bson.D{{Key: "at", Value: bson.NewObjectID()}}}, "list loans: at is objectId in a, which has no order: convert"},
		{bson.A{bson.D{{Key: "at", Value: 1}}, bson.D{{Key: "at", Value: "1"}}}, "list loans: at is int and string in elements of a, which have no common order: convert"},
	} {
		f := p.Fold(nil, lent("a", test.elements))
		err := error(f.Err)
		if f.Err == nil {
			_, _, err = p.View().Merge("k", nil, []model.PartChange{{AggregateID: "a", After: f.Document}})
		}
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%v: %v, want %q", test.elements, err, test.says)
		}
	}
}

// TestListWithoutSortHasNoField checks that a list without sort does not sort by a field without a
// name.
func TestListWithoutSortHasNoField(t *testing.T) {
	t.Parallel()
	p := projectiontest.One(t, strings.NewReplacer("key: state.member", "key: \"'k'\"\n        each: state.dueOn", ", sort: -dueOn", "").Replace(loans))
	f := p.Fold(nil, lent("a", bson.A{bson.D{{Key: "", Value: bson.D{}}}}))
	if _, _, err := p.View().Merge("k", nil, []model.PartChange{{AggregateID: "a", After: f.Document}}); f.Err != nil || err != nil {
		t.Errorf("%v, %v", f.Err, err)
	}
}

func TestListDeclarations(t *testing.T) {
	t.Parallel()
	for as, want := range map[string]string{
		"{a: {list: true}, b: {list: true}}": "as is the name of a field, or of one list",
		"{loans: {sort: dueOn}}":             "a list has list: true; write as: loans to have the parts",
		"{loans: {list: true, sort: a.b}}":   `field "a.b" is not a valid field name`,
		"{loans: {list: true, by: dueOn}}":   "unknown key by; a list of parts has list, sort",
		"{parts: {list: true}}":              "field parts belongs to Penstock",
	} {
		if _, err := projection.Parse("test.yaml", []byte(strings.Replace(loans, "{loans: {list: true, sort: -dueOn}}", as, 1))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("as: %s: %v", as, err)
		}
	}
	for _, as := range []string{"loans", "{loans: {list: true}}", "{loans: {list: true, sort: dueOn}}"} {
		second := "      - {aggregateType: Fine, key: part.member, as: " + as + ", on: {Fined: {set: {member: payload.member}}}}\n"
		if _, err := projection.Parse("test.yaml", []byte(loans+second)); err == nil || !strings.Contains(err.Error(), "loans is declared in another way before") {
			t.Errorf("as: %s beside a list that is sorted by -dueOn: %v", as, err)
		}
	}
}
