package quarantine_test

import (
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/quarantine"
)

func TestDocumentTextHasTheFormOfTheCommandLine(t *testing.T) {
	t.Parallel()
	oid, err := bson.ObjectIDFromHex("65a0b1c2d3e4f5a6b7c8d9e0")
	if err != nil {
		t.Fatal(err)
	}
	for want, v := range map[string]any{
		"e-1":                        "e-1",
		`""`:                         "",
		"65a0b1c2d3e4f5a6b7c8d9e0":   oid,
		`"65a0b1c2d3e4f5a6b7c8d9e0"`: "65a0b1c2d3e4f5a6b7c8d9e0",
		`"{\"$numberInt\":\"7\"}"`:   `{"$numberInt":"7"}`,
		`"null"`:                     "null",
		"null":                       bson.Null{},
		`"\"null\""`:                 `"null"`,
		`{"$numberInt":"7"}`:         int32(7),
		`{"a": {"$numberLong":"1"}}`: bson.D{{Key: "a", Value: int64(1)}},
	} {
		if got := quarantine.DocumentText(testkit.Value(v)); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}

func TestUnreadableRecordIsNamedBesideTheOthers(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	for document, seen := range map[string]any{"a": 1, "b": "x"} {
		if _, err := db.Collection(quarantine.CollectionName).InsertOne(t.Context(), bson.D{{Key: "_id", Value: bson.D{{Key: "stream", Value: "main"}, {Key: "document", Value: document}}}, {Key: "seen", Value: seen}}); err != nil {
			t.Fatal(err)
		}
	}
	found, err := quarantine.NewRecords(db, "main").List(t.Context(), quarantine.Filter{}, 10)
	if len(found) != 1 || found[0].Seen != 1 {
		t.Errorf("found %v", found)
	}
	if err == nil || !strings.Contains(err.Error(), `_id {"stream": "main","document": "b"} of collection quarantine cannot be read`) {
		t.Errorf("the error is %v", err)
	}
}

// The records have no index by their time: only a limit lets the server forget the others while it
// sorts. The text of a document's _id is compared here.
func TestServerSortsOnlyAsManyRecordsAsAreListed(t *testing.T) {
	t.Parallel()
	empty := bson.D{{Key: "ok", Value: 1}, {Key: "cursor", Value: bson.D{{Key: "id", Value: int64(0)}, {Key: "ns", Value: "p.quarantine"}, {Key: "firstBatch", Value: bson.A{}}}}}
	for _, test := range []struct {
		filter  quarantine.Filter
		limit   int
		command string
	}{
		{quarantine.Filter{Reason: "too_large"}, 200, `"limit":200,`},
		{quarantine.Filter{}, quarantine.MaxRecords + 1, `"limit":10000,`},
		{quarantine.Filter{Document: "a"}, 1, ""},
	} {
		s := mongotest.NewReplies(t, empty)
		if _, err := quarantine.NewRecords(s.Client.Database("p"), "main").List(t.Context(), test.filter, test.limit); err != nil {
			t.Fatal(err)
		}
		if got := s.Command(t, 0); !strings.Contains(got, test.command) || test.command == "" && strings.Contains(got, "limit") {
			t.Errorf("%+v is read by %s", test.filter, got)
		}
	}
}
