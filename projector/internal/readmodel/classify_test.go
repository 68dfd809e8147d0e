package readmodel

import (
	"context"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// TestPermanentCodes checks that codes which mean that a document can never be stored are
// not retried, and that the two tables do not contradict each other.
func TestPermanentCodes(t *testing.T) {
	t.Parallel()
	for _, code := range []int{17262, 17261, 16766, 13026, 13027, 66, 72, 166, 121, 16755, 22, 53, 56, 61, 201, 283, 378} {
		if r := judge(mongo.WriteError{Code: code}); r.Status != model.Rejected {
			t.Errorf("code %d: %+v", code, r)
		}
	}
	// Missing rights, a missing collection, a full disk and an election are not caused by
	// the document.
	for _, code := range []int{13, 18, 26, 8000, 14031, 189, 112, 50, 64} {
		if r := judge(mongo.WriteError{Code: code}); r.Status != model.Unknown {
			t.Errorf("code %d: %+v", code, r)
		}
	}
	for code := range rejections {
		if mongox.Transient(mongo.WriteError{Code: code}) {
			t.Errorf("code %d is permanent here and transient in mongox", code)
		}
	}
}

// TestRefusedCommandIsHalved checks that the operation because of which the server
// refuses a whole command is found, and that the others are carried out.
func TestRefusedCommandIsHalved(t *testing.T) {
	t.Parallel()
	for _, deletes := range []bool{false, true} {
		t.Run(fmt.Sprint("deletes ", deletes), func(t *testing.T) {
			t.Parallel()
			s := newTestStore(t, fussy{newDatabase(t)})
			var operations []model.Write
			for i := range 9 {
				k := keyOf(fmt.Sprint(i))
				k.Deletes = deletes
				v := "good"
				if i == 5 {
					v = "bad"
				}
				operations = append(operations, model.Write{Unit: k, Kind: model.Create, To: 1, Document: testkit.FromJSON(`{"v":"` + v + `"}`)})
			}
			for i, r := range s.write(t, operations...) {
				want := model.Applied
				if i == 5 {
					want = model.Rejected
				}
				// The others may have been stored before, because the command failed and
				// not the write.
				if r.Status != want && (want != model.Applied || r.Status != model.Stale) {
					t.Errorf("operation %d (deletes: %v): %+v", i, deletes, r)
				}
			}
		})
	}
}

// fussy refuses a whole command if it holds a bad document, like a server that cannot
// read the command.
type fussy struct{ database }

func (f fussy) insert(ctx context.Context, collection string, documents []bson.Raw) error {
	for _, d := range documents {
		if v, _ := d.Lookup("v").StringValueOK(); v == "bad" {
			return fmt.Errorf("insert into %s: %w", collection, mongo.CommandError{Code: 22, Name: "InvalidBSON", Message: "not a document"})
		}
	}
	return f.database.insert(ctx, collection, documents)
}
