package projection_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// TestViewRefusesIDThatCannotNameAField has an id whose end would be read as the value of the
// field, and could forge others.
func TestViewRefusesIDThatCannotNameAField(t *testing.T) {
	t.Parallel()
	p := projectiontest.One(t, `
views:
  - name: v
    collection: v
    from:
      - {aggregateType: A, key: "'k'", as: parts_, on: {E: {set: {x: "1"}}}}
`)
	const id = "a\x00\x05\x00\x00\x00\x00\x0aforged"
	l := newPipeline(p)
	change := l.fold(t, []*event.Event{viewEvent("A", id, 1, "E", bson.D{})})
	v := p.View()
	if document, _, err := v.Merge("k", nil, []model.PartChange{change}); err == nil {
		t.Errorf("merge made %x", []byte(document))
	}
	if document, err := model.Whole(v, "k", []model.Part{{AggregateID: id, Document: change.After}}); err == nil {
		t.Errorf("whole made %x", []byte(document))
	}
}
