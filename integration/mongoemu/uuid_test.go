package mongoemu_test

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

// A collection's UUID identifies it permanently: a rename keeps it, and a collection that
// is created again gets another one.
func TestCollectionUUID(t *testing.T) {
	t.Parallel()
	_, client := start(t, mongoemu.Config{})
	db := client.Database("db")
	create := func(name string) string {
		if err := db.CreateCollection(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		return uuidOf(t, db, name)
	}
	rename := func(from, to string) {
		err := client.Database("admin").RunCommand(t.Context(), bson.D{
			{Key: "renameCollection", Value: "db." + from}, {Key: "to", Value: "db." + to}, {Key: "dropTarget", Value: true},
		}).Err()
		if err != nil {
			t.Fatal(err)
		}
	}
	first, second := create("first"), create("second")
	if first == second || len(first) != 16 {
		t.Errorf("the UUIDs are %x and %x", first, second)
	}
	if again := uuidOf(t, db, "first"); again != first {
		t.Error("the UUID changes by itself")
	}
	rename("first", "second")
	if got := uuidOf(t, db, "second"); got != first {
		t.Errorf("after the rename the UUID is %x, not %x", got, first)
	}
	drop := func(name, uuid string) error {
		return db.RunCommand(t.Context(), bson.D{{Key: "drop", Value: name}, {Key: "collectionUUID", Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: []byte(uuid)}}}).Err()
	}
	var mismatch mongo.ServerError
	for name, uuid := range map[string]string{"second": second, "first": first} {
		if err := drop(name, uuid); !errors.As(err, &mismatch) || !mismatch.HasErrorCode(361) {
			t.Errorf("a drop of %s by the UUID of another collection: %v", name, err)
		}
	}
	if err := drop("second", first); err != nil {
		t.Fatal(err)
	}
	if got := uuidOf(t, db, "second"); got != "" {
		t.Errorf("a dropped collection has the UUID %x", got)
	}
	if got := create("second"); got == first || got == second {
		t.Error("a collection that was created again has its predecessor's UUID")
	}
}

// uuidOf returns the UUID of a collection; empty if there is none.
func uuidOf(t *testing.T, db *mongo.Database, name string) string {
	t.Helper()
	specifications, err := db.ListCollectionSpecifications(t.Context(), bson.D{{Key: "name", Value: name}})
	if err != nil {
		t.Fatal(err)
	}
	if len(specifications) == 0 {
		return ""
	}
	uuid := specifications[0].UUID
	if uuid == nil || uuid.Subtype != bson.TypeBinaryUUID {
		t.Fatalf("collection %s has the UUID %v", name, uuid)
	}
	return string(uuid.Data)
}
