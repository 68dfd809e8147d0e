package readmodel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// TestViewDocumentsAreComparedAndRepaired falsifies documents of a view in every way, and
// repairs them.
func TestViewDocumentsAreComparedAndRepaired(t *testing.T) {
	t.Parallel()
	for _, generation := range []int64{1, 2} {
		t.Run(fmt.Sprint("generation ", generation), func(t *testing.T) {
			t.Parallel()
			database := server.Database(t)
			db, d := onMongo(database), NewViewDocuments(database)
			s := newTestStore(t, db)
			unit := func(aggregate string) model.Unit { u := viewUnit(aggregate); u.Generation = generation; return u }
			keys := []string{"changed", "foreign", "gone", "more", "narrow", "right"}
			for i, key := range keys {
				s.put(t, unit(fmt.Sprint(i)), 1, partWith("x", to(key, 5), to("all", 1)))
			}
			documents := database.Collection("sums")
			for key, change := range map[string]bson.D{
				"changed": {{Key: "sum", Value: int64(6)}}, "more": {{Key: "parts", Value: int64(2)}}, "narrow": {{Key: "parts", Value: int32(1)}}, "foreign": {{Key: model.FieldLastGeneration, Value: generation - 1}},
			} {
				if r, err := documents.UpdateByID(t.Context(), key, bson.D{{Key: "$set", Value: change}}); err != nil || r.ModifiedCount != 1 {
					t.Fatal(r, err)
				}
			}
			if _, err := documents.DeleteOne(t.Context(), bson.D{{Key: "_id", Value: "gone"}}); err != nil {
				t.Fatal(err)
			}
			put(t, db, "sums", bson.D{{Key: "_id", Value: "stray"}, {Key: "lastUpdatedAt", Value: time.Now()}, {Key: "lastGeneration", Value: generation}, {Key: "parts", Value: int64(1)}})
			before := updatedAtOf(t, db, "right")
			for key, wrong := range map[string]bool{"changed": true, "foreign": true, "gone": true, "more": true, "narrow": true, "stray": true, "right": false, "all": false, "never": false} {
				found, err := d.Compare(t.Context(), unit(""), sums{}, key)
				if err != nil || (found.Foreign || !bytes.Equal(found.Stored, found.Whole)) != wrong {
					t.Errorf("%s: %+v, %v", key, found, err)
				}
				if found.Foreign != (key == "foreign") || (found.Stored == nil) != slices.Contains([]string{"foreign", "gone", "never"}, key) || (found.Whole == nil) != slices.Contains([]string{"stray", "never"}, key) {
					t.Errorf("%s: %+v", key, found)
				}
				if err := d.Repair(t.Context(), unit(""), sums{}, key); err != nil {
					t.Error(err)
				}
			}
			if now := expectWhole(t, db, unit("")); len(now.documents) != 7 {
				t.Errorf("%d documents", len(now.documents))
			}
			if after := updatedAtOf(t, db, "right"); after != before {
				t.Error("a right document was written")
			}
		})
	}
}

func updatedAtOf(t *testing.T, db database, key string) int64 {
	t.Helper()
	found, err := db.find(t.Context(), "sums", byID([]string{key}), nil, 1)
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	return updatedAt(found[0])
}

func TestDocumentWhosePartsTakeTooLongIsRefused(t *testing.T) {
	t.Parallel()
	ctx, cancel := mongox.Timeout(t.Context(), 0)
	defer cancel()
	<-ctx.Done()
	_, err := NewViewDocuments(newDatabase(t).db).Compare(ctx, viewUnit("a"), sums{}, "k")
	if err == nil || !strings.Contains(err.Error(), "choose a key with fewer parts") {
		t.Errorf("error %v", err)
	}
}

// Documents of a newer generation, and of others, are neither compared nor repaired.
func TestRepairLeavesOtherDocuments(t *testing.T) {
	t.Parallel()
	database := server.Database(t)
	d := NewViewDocuments(database)
	put(t, onMongo(database), "sums", bson.D{{Key: "_id", Value: "newer"}, {Key: "lastUpdatedAt", Value: time.Now()}, {Key: "lastGeneration", Value: int64(2)}, {Key: "parts", Value: int64(1)}})
	put(t, onMongo(database), "sums", bson.D{{Key: "_id", Value: "theirs"}, {Key: "parts", Value: int64(3)}})
	for key, want := range map[string]error{"newer": model.ErrSuperseded, "theirs": errNoViewDocument} {
		found, err := d.Compare(t.Context(), viewUnit(""), sums{}, key)
		if key == "theirs" && err == nil {
			err = found.Err // the comparison of the other documents goes on
		}
		if !errors.Is(err, want) || found.Stored != nil {
			t.Errorf("%s: %+v, %v", key, found, err)
		}
		if err := d.Repair(t.Context(), viewUnit(""), sums{}, key); !errors.Is(err, want) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// Documents that are absent although parts contribute to them are listed page by page.
func TestAbsentViewDocumentsAreListedInPages(t *testing.T) {
	t.Parallel()
	database := newDatabase(t).db
	s, d := newTestStore(t, onMongo(database)), NewViewDocuments(database)
	var absent []string
	var writes []model.Write
	for i := range 25 {
		key := fmt.Sprintf("k-%02d", i)
		if i%4 == 0 {
			absent = append(absent, key)
		}
		for _, generation := range []int64{0, 2, 3} {
			u := viewUnit(fmt.Sprintf("a-%02d", i))
			u.Generation = generation
			if generation != 2 {
				u.Collection = fmt.Sprint("sums-", generation)
			}
			writes = append(writes, partWrite(u, model.State{}, 1, partWith("x", to(key, 1))))
		}
	}
	s.apply(t, model.Applied, writes...)
	u := viewUnit("")
	u.Generation = 2
	s.apply(t, model.Applied, partWrite(model.Unit{Projection: "sums", Collection: "sums", Generation: 2, AggregateID: "a-99", Parts: true}, model.State{}, 1, nil))
	for _, key := range absent {
		if _, err := database.Collection("sums").DeleteOne(t.Context(), bson.D{{Key: "_id", Value: key}}); err != nil {
			t.Fatal(err)
		}
	}
	var missing []string
	pages := 0
	for after := ""; pages == 0 || after != ""; pages++ {
		page, last, err := d.Absent(t.Context(), u, after, 4)
		if err != nil {
			t.Fatal(err)
		}
		missing, after = append(missing, page...), last
	}
	if !slices.Equal(missing, absent) || pages != 7 {
		t.Errorf("absent %v in %d pages, want %v", missing, pages, absent)
	}
}

// The parts of one document can be on every page. It is listed once, also if a listing continues
// at a saved position.
func TestAbsentViewDocumentIsListedOnce(t *testing.T) {
	t.Parallel()
	database := newDatabase(t).db
	s, d := newTestStore(t, onMongo(database)), NewViewDocuments(database)
	var writes []model.Write
	for i := range 12 {
		// Other generations of the view, and other views, have the same keys.
		for _, projection := range []string{"sums", "a view", "z view"} {
			for _, generation := range []int64{0, 2, 3} {
				u := viewUnit(fmt.Sprintf("a-%02d", i))
				u.Projection, u.Generation = projection, generation
				u.Collection = fmt.Sprint(projection, generation)
				keys := []testAmount{to("all", 1), to("some-2", 1)}
				if projection == "sums" && generation == 2 {
					keys[1] = to(fmt.Sprintf("some-%d", i/5), 1)
				}
				writes = append(writes, partWrite(u, model.State{}, 1, partWith("x", keys...)))
			}
		}
	}
	s.apply(t, model.Applied, writes...)
	u := viewUnit("")
	u.Generation, u.Collection = 2, "sums2"
	if _, err := database.Collection("sums2").DeleteMany(t.Context(), bson.D{}); err != nil {
		t.Fatal(err)
	}
	var pages [][]string
	for after := ""; len(pages) == 0 || after != ""; {
		page, last, err := d.Absent(t.Context(), u, after, 4)
		if err != nil {
			t.Fatal(err)
		}
		pages, after = append(pages, page), last
	}
	if want := [][]string{{"all", "some-0"}, {"some-1"}, {"some-2"}, nil}; !reflect.DeepEqual(pages, want) {
		t.Errorf("pages %v, want %v", pages, want)
	}
}

// The keys of a page of parts can be more bytes than a command may have.
func TestAbsentViewDocumentsOfLargePartsAreListed(t *testing.T) {
	t.Parallel()
	database := newDatabase(t).db
	const parts, keys = 18, 1000
	for i := range parts {
		u, amounts := viewUnit(fmt.Sprintf("a-%02d", i)), make([]testAmount, keys)
		for j := range amounts {
			amounts[j] = to(fmt.Sprintf("%01000d", i*keys+j), 1)
		}
		put(t, onMongo(database), watermarksCollection, bson.D{
			{Key: fieldID, Value: bson.D{{Key: fieldProjection, Value: u.Projection}, {Key: fieldAggregateID, Value: u.AggregateID}, {Key: fieldGeneration, Value: u.Number()}}},
			{Key: fieldPart, Value: partWith("x", amounts...)},
		})
	}
	absent, _, err := NewViewDocuments(database).Absent(t.Context(), viewUnit(""), "a", parts)
	if err != nil || len(absent) != parts*keys {
		t.Errorf("%d absent documents, %v", len(absent), err)
	}
}

// The documents of a view have no watermark, and their _ids are no aggregates.
func TestInspectionKnowsViewDocuments(t *testing.T) {
	t.Parallel()
	database := server.Database(t)
	s := newTestStore(t, onMongo(database))
	s.put(t, viewUnit("a"), 1, partWith("x", to("k", 1)))
	unasked := func(context.Context, []string) ([]string, error) {
		return nil, errors.New("a view document was looked up in the event store")
	}
	i, err := Inspect(t.Context(), database, "sums", unasked)
	if err != nil || i.Unmanaged != 0 || i.Archived != 0 {
		t.Errorf("%+v, %v", i, err)
	}
	put(t, onMongo(database), "sums", bson.D{{Key: "_id", Value: "kit"}, {Key: "parts", Value: int64(12)}}) // an application's
	put(t, onMongo(database), "sums", bson.D{{Key: "_id", Value: "list"}, {Key: "parts", Value: bson.A{"screw"}}, {Key: "lastUpdatedAt", Value: time.Now()}})
	if i, err := Inspect(t.Context(), database, "sums", unasked); err != nil || i.Unmanaged != 2 {
		t.Errorf("%+v, %v", i, err)
	}
}

// The index has only the watermarks with parts.
func TestPartsAreFoundByAnIndex(t *testing.T) {
	t.Parallel()
	database := server.Database(t)
	for range 2 {
		if err := errors.Join(Prepare(t.Context(), database, nil), PrepareViews(t.Context(), database)); err != nil {
			t.Fatal(err)
		}
	}
	indexes, err := database.Collection(watermarksCollection).Indexes().ListSpecifications(t.Context())
	if err != nil || len(indexes) != 2 || indexes[1].Name != pathKeys+"_1" || indexes[1].Sparse == nil || !*indexes[1].Sparse {
		t.Errorf("%+v, %v", indexes, err)
	}
}
