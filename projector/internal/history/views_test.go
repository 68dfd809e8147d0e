package history

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// others is a collection with two documents that are none of Penstock's.
type others struct {
	Views
	Listing
	Findings
	job.Progress
	found []Finding
}

func (*others) Compare(context.Context, model.Unit, model.View, string) (model.ViewDocument, error) {
	return model.ViewDocument{Err: errors.New("it is not a view document of Penstock")}, nil
}

func (*others) Keys(context.Context, model.Unit, string, int) ([]string, error) {
	return []string{"theirs"}, nil
}

func (*others) Odd(context.Context, model.Unit, int) ([]string, error) {
	return []string{`{"$numberInt":"7"}`}, nil
}

func (o *others) Put(_ context.Context, f Finding) error {
	o.found = append(o.found, f)
	return nil
}

func (*others) Save(context.Context, bson.Raw, map[string]int64) error { return nil }

// TestOtherDocumentsOfAViewAreFindings has documents that an application has written into the
// collection of a view. An error would end the verification of all other documents.
func TestOtherDocumentsOfAViewAreFindings(t *testing.T) {
	t.Parallel()
	view := projectiontest.One(t, `
views:
  - name: v
    collection: v
    from:
      - {aggregateType: A, key: "'k'", as: parts_, on: {E: {set: {x: "1"}}}}
`)
	o := &others{}
	w := New(Options{Views: o, Listing: o, Findings: o, Logger: zerolog.Nop()})
	p := newPass(w, job.Job{ID: "j"}, &engine.Target{Projection: view}, Params{Sample: 1}, position{}, nil, o)
	if err := p.viewDocuments(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if len(o.found) != 2 || o.found[0].Kind != Extra || o.found[0].AggregateID != `{"$numberInt":"7"}` ||
		o.found[1].Kind != Different || o.found[1].Document != "theirs" || !strings.Contains(o.found[1].Detail, "delete it by hand") {
		t.Errorf("%+v", o.found)
	}
}
