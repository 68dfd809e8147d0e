package authoring_test

import (
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/projection/authoring"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

func TestChanges(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		before, after string
		want          []authoring.FieldChange
	}{
		{`{"a":1,"b":{"c":1,"d":2}}`, `{"b":{"d":2,"c":1},"a":1}`, nil},
		{`{"_id":"x","lastEventId":1,"lastUpdatedAt":1,"lastGeneration":1,"a":1}`, `{"_id":"y","a":1}`, nil},
		{`{"a":{"_id":1}}`, `{"a":{"_id":2}}`, []authoring.FieldChange{{"a._id", "1", "2"}}},
		{`{"a":1,"b":2}`, `{"c":3,"a":{"$numberLong":"1"}}`, []authoring.FieldChange{{"a", "1", "1"}, {"b", "2", ""}, {"c", "", "3"}}},
		{`{"a":[1,{"b":2}]}`, `{"a":[1,{"b":2},3,[4]]}`, []authoring.FieldChange{{"a[2]", "", "3"}, {"a[3]", "", "[4]"}}},
		{`{"a":[]}`, `{"a":[1]}`, []authoring.FieldChange{{"a[0]", "", "1"}}},
		{`{"a":[1,2]}`, `{"a":[1]}`, []authoring.FieldChange{{"a", "[1,2]", "[1]"}}},
		{`{"a":[1,2]}`, `{"a":[2,2,3]}`, []authoring.FieldChange{{"a", "[1,2]", "[2,2,3]"}}},
		{`{"a":[1]}`, `{"a":{"0":1}}`, []authoring.FieldChange{{"a", "[1]", `{"0":1}`}}},
	} {
		if got, more := authoring.Changes(testkit.FromJSON(test.before), testkit.FromJSON(test.after)); !reflect.DeepEqual(got, test.want) || more != 0 {
			t.Errorf("%s to %s: %v and %d more", test.before, test.after, got, more)
		}
	}
	var fields []string
	for i := range 60 {
		fields = append(fields, fmt.Sprintf(`"f%d":%d`, i, i))
	}
	if listed, more := authoring.Changes(nil, testkit.FromJSON("{"+strings.Join(fields, ",")+"}")); len(listed) != 50 || more != 10 || listed[0] != (authoring.FieldChange{Path: "f0", After: "0"}) {
		t.Errorf("%d changes and %d more: %v", len(listed), more, listed)
	}
}

// TestChangesFindEveryDifference checks that two documents have no change if and only if
// their own fields are equal.
func TestChangesFindEveryDifference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		before, after := projectiontest.DrawDocument(t), projectiontest.DrawDocument(t)
		if rapid.Bool().Draw(t, "same") {
			after = before
		}
		listed, more := authoring.Changes(before, after)
		if equal := maps.EqualFunc(projectiontest.Content(before), projectiontest.Content(after), bson.RawValue.Equal); equal != (len(listed)+more == 0) {
			t.Fatalf("%s to %s: %v and %d more", before, after, listed, more)
		}
	})
}
