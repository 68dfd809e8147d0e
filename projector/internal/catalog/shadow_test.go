package catalog_test

import (
	"maps"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/projector/internal/catalog"
)

// liveCollection creates the collection users with an index, a validator and a document.
func liveCollection(t *testing.T) *mongo.Database {
	t.Helper()
	db := server.Database(t)
	if err := db.CreateCollection(t.Context(), "users", options.CreateCollection().SetValidator(bson.D{{Key: "name", Value: bson.D{{Key: "$type", Value: "string"}}}})); err != nil {
		t.Fatal(err)
	}
	_, err := db.Collection("users").Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "email", Value: 1}, {Key: "name", Value: -1}}, Options: options.Index().SetUnique(true).SetSparse(true).SetName("contact")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Collection("users").InsertOne(t.Context(), bson.D{{Key: "_id", Value: "old"}, {Key: "name", Value: "Ada"}}); err != nil {
		t.Fatal(err)
	}
	return db
}

func TestShadowHasTheOptionsAndIndexesOfTheLiveCollection(t *testing.T) {
	t.Parallel()
	db := liveCollection(t)
	s := catalog.NewShadows(db)
	first, err := s.Prepare(t.Context(), "users.generation-2", "users")
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Prepare(t.Context(), "users.generation-2", "users")
	if err != nil || !slices.Equal(again.Data, first.Data) {
		t.Errorf("repeated: %v, %v and %v", err, first, again)
	}
	specifications, err := db.Collection("users.generation-2").Indexes().ListSpecifications(t.Context())
	if err != nil || len(specifications) != 2 || specifications[1].Name != "contact" || !*specifications[1].Unique || !*specifications[1].Sparse {
		t.Errorf("indexes are %+v: %v", specifications, err)
	}
	if _, err := db.Collection("users.generation-2").InsertOne(t.Context(), bson.D{{Key: "name", Value: 1}}); err == nil {
		t.Error("the validator was not copied")
	}
	if n, err := db.Collection("users.generation-2").CountDocuments(t.Context(), bson.D{}); err != nil || n != 0 {
		t.Errorf("%d documents were copied: %v", n, err)
	}
}

func TestShadowWithoutALiveCollectionIsCreated(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	if uuid, err := catalog.NewShadows(db).Prepare(t.Context(), "users.generation-1", "users"); err != nil || len(uuid.Data) != 16 {
		t.Errorf("UUID %v: %v", uuid, err)
	}
}

// The collection keeps its UUID through both renames, and a repeated rename changes
// nothing.
func TestPromotionContinuesAfterEachStep(t *testing.T) {
	t.Parallel()
	db := liveCollection(t)
	s := catalog.NewShadows(db)
	uuid, err := s.Prepare(t.Context(), "users.generation-2", "users")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Collection("users.generation-2").InsertOne(t.Context(), bson.D{{Key: "_id", Value: "new"}, {Key: "name", Value: "Ada"}}); err != nil {
		t.Fatal(err)
	}
	at := func(want string) {
		t.Helper()
		if name, err := s.Where(t.Context(), uuid); err != nil || name != want {
			t.Errorf("the collection is at %q, want %q: %v", name, want, err)
		}
	}
	at("users.generation-2")
	const own = "users.generation-2.promotion-1"
	for range 2 {
		if err := s.Rename(t.Context(), "users.generation-2", own, false); err != nil {
			t.Fatal(err)
		}
		at(own)
	}
	// A suspended pod creates a collection with the old name, and a late coordinator
	// renames that one.
	if _, err := db.Collection("users.generation-2").InsertOne(t.Context(), bson.D{{Key: "_id", Value: "late"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Rename(t.Context(), "users.generation-2", own, false); err != nil {
		t.Fatal(err)
	}
	at(own)
	names, err := s.Names(t.Context())
	if all := slices.Sorted(maps.Values(names)); err != nil || !slices.Equal(all, []string{"users", "users.generation-2", own}) {
		t.Errorf("names are %v: %v", names, err)
	}
	for range 2 {
		if err := s.Rename(t.Context(), own, "users", true); err != nil {
			t.Fatal(err)
		}
		at("users")
	}
	if n, err := db.Collection("users").CountDocuments(t.Context(), bson.D{{Key: "_id", Value: "new"}}); err != nil || n != 1 {
		t.Errorf("the readers' collection is not the new one: %v", err)
	}
	for range 2 {
		if err := s.Drop(t.Context(), "users.generation-2"); err != nil {
			t.Fatal(err)
		}
	}
	if name, err := s.Where(t.Context(), bson.Binary{Subtype: 4, Data: make([]byte, 16)}); err != nil || name != "" {
		t.Errorf("an unknown UUID is at %q: %v", name, err)
	}
}

// The shadow does not get the default collation of the live collection, under which two ids
// could be equal. The server lists for each index which collation it has, so the indexes
// keep theirs.
func TestIndexesKeepTheirCollations(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	if err := db.CreateCollection(t.Context(), "users", options.CreateCollection().SetCollation(&options.Collation{Locale: "en", Strength: 2})); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Collection("users").Indexes().CreateMany(t.Context(), []mongo.IndexModel{
		{Keys: bson.D{{Key: "exact", Value: 1}}, Options: options.Index().SetUnique(true).SetCollation(&options.Collation{Locale: "simple"})},
		{Keys: bson.D{{Key: "folded", Value: 1}}, Options: options.Index().SetUnique(true)},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := catalog.NewShadows(db).Prepare(t.Context(), "users.generation-2", "users"); err != nil {
		t.Fatal(err)
	}
	made := db.Collection("users.generation-2")
	if _, err := made.InsertMany(t.Context(), []any{
		bson.D{{Key: "_id", Value: "a"}, {Key: "exact", Value: "a"}, {Key: "folded", Value: "a"}},
		bson.D{{Key: "_id", Value: "A"}, {Key: "exact", Value: "A"}, {Key: "folded", Value: "b"}},
	}); err != nil {
		t.Errorf("ids, or the index without a collation, have got one: %v", err)
	}
	if _, err := made.InsertOne(t.Context(), bson.D{{Key: "exact", Value: "b"}, {Key: "folded", Value: "A"}}); !mongo.IsDuplicateKeyError(err) {
		t.Errorf("the index with the collation of the collection has lost it: %v", err)
	}
}

// A drop that is sent again finds no collection: it is gone, and nothing has replaced it.
func TestDropExactlySparesOnlyAReplacement(t *testing.T) {
	t.Parallel()
	db := liveCollection(t)
	s := catalog.NewShadows(db)
	uuid, err := s.UUID(t.Context(), "users")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if gone, err := s.DropExactly(t.Context(), "users", *uuid); err != nil || !gone {
			t.Errorf("gone: %v, %v", gone, err)
		}
	}
	if err := db.CreateCollection(t.Context(), "users"); err != nil {
		t.Fatal(err)
	}
	if gone, err := s.DropExactly(t.Context(), "users", *uuid); err != nil || gone {
		t.Errorf("gone after it was replaced: %v, %v", gone, err)
	}
	if left, err := s.UUID(t.Context(), "users"); err != nil || left == nil {
		t.Errorf("the replacement is %v, %v", left, err)
	}
}
