package verify

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// otherDocument has a document that is none of Penstock's.
type otherDocument struct{ Views }

func (otherDocument) Compare(context.Context, model.Unit, model.View, string) (model.ViewDocument, error) {
	return model.ViewDocument{Err: errors.New("it is not a view document of Penstock")}, nil
}

// TestOtherDocumentOfAViewIsAFinding has a document that an application has written into the
// collection of a view. An error would end the verification of all other documents.
func TestOtherDocumentOfAViewIsAFinding(t *testing.T) {
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
	p := pass{Worker: &Worker{options: Options{Views: otherDocument{}}}, target: &engine.Target{Projection: projections[0]}}
	f, err := p.compareDocument(t.Context(), "theirs")
	if err != nil || f == nil || f.Kind != Different || f.Document != "theirs" || !strings.Contains(f.Detail, "delete it by hand") {
		t.Errorf("%+v, %v", f, err)
	}
}
