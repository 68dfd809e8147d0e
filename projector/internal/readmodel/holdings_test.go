package readmodel

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestHighestGeneration(t *testing.T) {
	t.Parallel()
	side := func(projection string, more ...bson.E) bson.D {
		return bson.D{{Key: "_id", Value: append(bson.D{{Key: "projection", Value: projection}, {Key: "aggregateId", Value: "a"}}, more...)}}
	}
	of := func(id string, generation any) bson.D {
		d := bson.D{{Key: "_id", Value: id}, {Key: "lastEventId", Value: int64(1)}}
		if generation != nil {
			d = append(d, bson.E{Key: "lastGeneration", Value: generation})
		}
		return d
	}
	later := bson.E{Key: "generation", Value: int64(4)}
	for name, test := range map[string]struct {
		documents, watermarks []any
		want                  int64
	}{
		"nothing":                      {nil, []any{side("others", later)}, 0},
		"several":                      {[]any{of("a", nil), of("b", int64(3)), of("c", int64(2)), of("d", "odd")}, []any{side("p"), side("p", later)}, 4},
		"documents that are set aside": {[]any{of("a", int64(0))}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := server.Database(t)
			for collection, documents := range map[string][]any{"things": test.documents, "watermarks": test.watermarks} {
				if len(documents) > 0 {
					if _, err := db.Collection(collection).InsertMany(t.Context(), documents); err != nil {
						t.Fatal(err)
					}
				}
			}
			got, err := HighestGeneration(t.Context(), db, "p", "things")
			if err != nil || got != test.want {
				t.Errorf("got %d, %v; want %d", got, err, test.want)
			}
		})
	}
}

// The inspection goes through _ids of all types, in several pages.
func TestDocumentsOfOthersAreCounted(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	var documents []any
	for i := range 12_000 {
		documents = append(documents, bson.D{{Key: "_id", Value: fmt.Sprint("a-", i)}, {Key: "lastEventId", Value: int64(1)}})
	}
	for _, id := range []any{1, 2.5, "a-", "z", bson.NewObjectID(), true} {
		documents = append(documents, bson.D{{Key: "_id", Value: id}, {Key: "lastEventId", Value: "one"}})
	}
	if _, err := db.Collection("things").InsertMany(t.Context(), documents); err != nil {
		t.Fatal(err)
	}
	err := CheckDocuments(t.Context(), db, "things")
	if !errors.Is(err, ErrLayout) || !strings.Contains(err.Error(), "things has 6 documents that no projector has written") {
		t.Errorf("error %v", err)
	}
}
