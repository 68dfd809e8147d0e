package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/job"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

// others are the documents of a collection that are none of Penstock's.
type others struct{ Views }

func (others) Compare(context.Context, model.Unit, model.View, string) (model.ViewDocument, error) {
	return model.ViewDocument{Err: errors.New("it is not a view document of Penstock")}, nil
}

const viewYAML = `
views:
  - name: v
    collection: v
    from:
      - {aggregateType: A, key: "'k'", as: parts_, on: {E: {set: {x: "1"}}}}
`

// TestOtherDocumentsOfAViewAreFindings has documents that an application has written into the
// collection of a view. An error would end the verification of all other documents.
func TestOtherDocumentsOfAViewAreFindings(t *testing.T) {
	t.Parallel()
	view := projectiontest.One(t, viewYAML)
	db := server.Database(t)
	if _, err := db.Collection("v").InsertMany(t.Context(), []any{bson.D{{Key: "_id", Value: int32(7)}}, bson.D{{Key: "_id", Value: "theirs"}}}); err != nil {
		t.Fatal(err)
	}
	w := New(Options{Views: others{}, Listing: NewDatabase(db), Findings: NewFindingStore(db), Logger: zerolog.Nop()})
	p := newPass(w, job.Job{ID: "j"}, &engine.Target{Projection: view, Collection: "v"}, Params{Sample: 1}, position{}, nil, &saver{saves: -1})
	if err := p.viewDocuments(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	found, err := w.Findings.List(t.Context(), "j", 10)
	if err != nil || len(found) != 2 || found[1].Kind != Extra || found[1].AggregateID != `{"$numberInt":"7"}` ||
		found[0].Kind != Different || found[0].Document != "theirs" || !strings.Contains(found[0].Detail, "delete it by hand") {
		t.Errorf("%+v, %v", found, err)
	}
}

// absentView counts how often a document of a view is compared.
type absentView struct {
	*readmodel.ViewDocuments
	compared []string
}

func (v *absentView) Compare(_ context.Context, _ model.Unit, _ model.View, key string) (model.ViewDocument, error) {
	v.compared = append(v.compared, key)
	return model.ViewDocument{Whole: bson.Raw{5, 0, 0, 0, 0}}, nil
}

// The parts of one document are on three pages. It is one finding, and is compared once, also if
// the work continues at a saved position.
func TestAbsentViewDocumentCountsOnce(t *testing.T) {
	t.Parallel()
	view := projectiontest.One(t, viewYAML)
	db := server.Database(t)
	records := make([]any, 1200)
	for i := range records {
		id := bson.D{{Key: "projection", Value: "v"}, {Key: "aggregateId", Value: fmt.Sprintf("%04d", i)}, {Key: "generation", Value: int64(1)}}
		part := bson.D{{Key: model.FieldDocuments, Value: bson.A{bson.D{{Key: model.FieldKey, Value: "k"}}}}}
		records[i] = bson.D{{Key: "_id", Value: id}, {Key: "lastEventId", Value: 1}, {Key: "part", Value: part}}
	}
	if _, err := db.Collection("watermarks").InsertMany(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	views, findings := &absentView{ViewDocuments: readmodel.NewViewDocuments(db)}, NewFindingStore(db)
	workers := New(Options{Views: views, Findings: findings, Target: func(context.Context, string, int64) (engine.Target, error) {
		return engine.Target{Projection: view, Collection: "v"}, nil
	}})
	workers.SaveEvery = 0
	j, r := job.Job{ID: "j", Kind: job.Verify, Projection: "v", Generation: 1}, job.Range{Part: testkit.Raw(span{Direction: absent})}
	for range 3 {
		s := &saver{stored: true}
		if err := workers.Work(t.Context(), j, r, s); !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		r.Position, r.Counts = testkit.Raw(s.r.position), s.r.counts
	}
	found, err := findings.List(t.Context(), "j", 10)
	if err != nil || len(found) != 1 || r.Counts[string(Missing)] != 1 || !slices.Equal(views.compared, []string{"k"}) {
		t.Errorf("findings %+v, %v; counts %v; compared %v", found, err, r.Counts, views.compared)
	}
}
