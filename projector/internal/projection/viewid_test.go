package projection_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// TestViewRefusesIDThatCannotNameAField has an id whose end would be read as the value of the
// field, and could forge others.
func TestViewRefusesIDThatCannotNameAField(t *testing.T) {
	t.Parallel()
	projections, err := projection.Parse("view.yaml", []byte(`
views:
  - name: v
    collection: v
    from:
      - {aggregateType: A, key: "'k'", as: parts_, on: {E: {set: {x: "1"}}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	const id = "a\x00\x05\x00\x00\x00\x00\x0aforged"
	l := newPipeline(projections[0])
	change := l.fold(t, []*event.Event{viewEvent(t, "A", id, 1, "E", bson.D{})})
	v := projections[0].View()
	if document, _, err := v.Merge("k", nil, []model.PartChange{change}); err == nil {
		t.Errorf("merge made %x", []byte(document))
	}
	if document, err := model.Whole(v, "k", []model.Part{{AggregateID: id, Document: change.After}}); err == nil {
		t.Errorf("whole made %x", []byte(document))
	}
}
