package authoring_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/projector/internal/projection/authoring"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

func TestDifference(t *testing.T) {
	t.Parallel()
	const defined = `
projections:
  - name: users
    collection: userReadModels
    aggregateType: User
    on:
      Registered:
        when: payload.name != 'a b'
        set: {name: payload.name, age: payload.age + 1, "address.city": "payload.name + ' x'"}
        unset: [left, right]
      Left:
        delete: true
`
	changed := projectiontest.One(t, strings.ReplaceAll(strings.ReplaceAll(defined, "age + 1", "age + 2"), "    aggregateType: User\n", ""))
	want := []string{"- aggregateType: User", "- on Registered set age: payload.age+1", "+ on Registered set age: payload.age+2"}
	if got := authoring.Difference(projectiontest.One(t, defined).Definition(), changed.Definition()); !slices.Equal(got, want) {
		t.Errorf("difference is %q", got)
	}
}
