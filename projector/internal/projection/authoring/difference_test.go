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
	const before = `projections: [{name: p, collection: c, aggregateType: User, on: {E: {when: payload.a > 0, set: {a.b: payload.a + 1}, unset: [c, d]}, Left: {delete: true}}}]`
	changed := strings.NewReplacer("payload.a + 1", "payload.a + 2", ", aggregateType: User", "").Replace(before)
	want := []string{"- aggregateType: User", "- on E set a.b: payload.a+1", "+ on E set a.b: payload.a+2"}
	if got := authoring.Difference(projectiontest.One(t, before).Definition(), projectiontest.One(t, changed).Definition()); !slices.Equal(got, want) {
		t.Errorf("difference is %q", got)
	}
}
