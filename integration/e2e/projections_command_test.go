package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// generationEntry returns a catalog entry with a live first generation.
func generationEntry(name, hash, collection string, more ...bson.E) bson.D {
	return append(bson.D{
		{Key: "_id", Value: name}, {Key: "pipeline", Value: "p"}, {Key: "revision", Value: int64(1)}, {Key: "generations", Value: int64(2)},
		{Key: "live", Value: bson.D{
			{Key: "generation", Value: int64(1)}, {Key: "hash", Value: hash}, {Key: "definition", Value: `{"name":"` + name + `"}`},
			{Key: "collection", Value: collection}, {Key: "deletes", Value: false}, {Key: "inCode", Value: false}, {Key: "since", Value: time.Now()},
		}},
	}, more...)
}

// TestProjectionsAreListedRebuiltAndDropped checks that the commands about projections show
// and change the catalog, and delete data only of retired projections.
func TestProjectionsAreListedRebuiltAndDropped(t *testing.T) {
	scene(t, projectionsAreListedRebuiltAndDropped)
}

func projectionsAreListedRebuiltAndDropped(t *testing.T) {
	t.Helper()
	s := newScenarioOn(t, countsWorkload(), harness.TopicOptions{})
	insert := func(collection string, documents ...any) {
		db := s.state
		if collection != "projections" && collection != "parked" {
			db = s.models
		}
		if _, err := db.Collection(collection).InsertMany(t.Context(), documents); err != nil {
			t.Fatal(err)
		}
	}
	side := func(projection string, generation int64) bson.D {
		id := bson.D{{Key: "projection", Value: projection}, {Key: "aggregateId", Value: "1"}, {Key: "generation", Value: generation}}
		return bson.D{{Key: "_id", Value: id}, {Key: "lastEventId", Value: int64(3)}, {Key: "eventId", Value: int64(3)}}
	}
	insert("projections",
		generationEntry("users", "aaaa", "users", bson.E{Key: "building", Value: bson.D{
			{Key: "generation", Value: int64(2)}, {Key: "hash", Value: "bbbb"}, {Key: "definition", Value: "{}"}, {Key: "collection", Value: "users"}, {Key: "deletes", Value: false}, {Key: "inCode", Value: false},
			{Key: "shadow", Value: "users.generation-2"}, {Key: "state", Value: "failed"}, {Key: "reason", Value: "3 documents differ"}, {Key: "jobs", Value: bson.D{{Key: "build", Value: "users.2.build"}}}, {Key: "startedAt", Value: time.Now()},
		}}),
		generationEntry("old", "cccc", "oldReadModels", bson.E{Key: "retiredAt", Value: time.Now()}))
	insert("oldReadModels", bson.D{{Key: "_id", Value: "1"}, {Key: "lastEventId", Value: int64(1)}}, bson.D{{Key: "_id", Value: "2"}, {Key: "lastEventId", Value: int64(1)}})
	insert("watermarks", side("old", 1), side("old", 2), side("users", 1))
	insert("parked", side("old", 2), side("users", 1))

	list := s.projectorList("projections", "list")
	if len(list) != 2 || list[0]["name"] != "old" || list[0]["state"] != "retired" || list[1]["state"] != "failed" {
		t.Errorf("listed %v", list)
	}
	if stdout, _ := s.projectorCommand(0, "projections", "list"); !strings.Contains(stdout, "3 documents differ") || !strings.Contains(stdout, "oldReadModels") {
		t.Errorf("the table is\n%s", stdout)
	}
	if stdout, _ := s.projectorCommand(0, "projections", "show", "users"); !strings.Contains(stdout, "users.2.build") || !strings.Contains(stdout, `{"name":"users"}`) {
		t.Errorf("shown\n%s", stdout)
	}
	if _, stderr := s.projectorCommand(1, "projections", "show", "items"); !strings.Contains(stderr, `there is no projection "items": the catalog has old, users`) {
		t.Errorf("unknown: %s", stderr)
	}

	building := func() string {
		var entry struct {
			Revision, Generations int64
			Building              struct {
				Generation, AllowParked int64
				Hash, State, Who, Why   string
			}
		}
		if err := s.state.Collection("projections").FindOne(t.Context(), bson.D{{Key: "_id", Value: "users"}}).Decode(&entry); err != nil {
			t.Fatal(err)
		}
		b := entry.Building
		return fmt.Sprintf("%d %s %s %d %s %s", b.Generation, b.Hash, b.State, b.AllowParked, strings.Split(b.Who, "@")[0], b.Why)
	}
	if _, stderr := s.projectorCommand(1, "projections", "retry", "users"); !strings.Contains(stderr, "build projection users again, whose generation 2 has failed: 3 documents differ") {
		t.Errorf("retry without --yes: %s", stderr)
	}
	s.projectorCommand(0, "projections", "retry", "users", "--yes", "--why=a full disk")
	if got := building(); !strings.HasSuffix(got, " bbbb building 0 ada a full disk") || strings.HasPrefix(got, "2 ") {
		t.Errorf("after a retry: %s", got)
	}
	s.projectorCommand(1, "projections", "retry", "users", "--yes")
	s.projectorCommand(1, "projections", "rebuild", "users", "--yes")
	s.projectorCommand(0, "projections", "rebuild", "users", "--yes", "--allow-parked=2")
	if got := building(); !strings.HasSuffix(got, " bbbb building 2 ada a full disk") {
		t.Errorf("with parked aggregates allowed: %s", got)
	}
	// The file has another definition, so it replaces the build.
	file := s.projectionsFile(strings.NewReplacer("name: counts", "name: users", "collection: counts", "collection: users").Replace(countsProjection))
	s.projectorCommand(0, "projections", "rebuild", "users", "--yes", "--projections="+file)
	got := building()
	if strings.Contains(got, "bbbb") {
		t.Errorf("with another definition: %s", got)
	}
	number, _, _ := strings.Cut(got, " ")
	if _, stderr := s.projectorCommand(1, "projections", "cancel", "users"); !strings.Contains(stderr, "give up generation "+number+" of projection users, which is building") {
		t.Errorf("cancel without --yes: %s", stderr)
	}
	if stdout, _ := s.projectorCommand(0, "projections", "cancel", "users", "--yes", "--why=wrong factor"); !strings.Contains(stdout, "generation 1 stays live") {
		t.Errorf("cancelled: %s", stdout)
	}
	users := s.projectorList("projections", "list")[1]
	if givenUp, ok := users["givenUp"].(map[string]any); !ok || givenUp["why"] != "wrong factor" || users["state"] != "live" {
		t.Errorf("listed as %v", users)
	}
	if _, stderr := s.projectorCommand(1, "projections", "cancel", "users", "--yes"); !strings.Contains(stderr, "projection users builds no generation") {
		t.Errorf("nothing to cancel: %s", stderr)
	}

	if _, stderr := s.projectorCommand(1, "projections", "rebuild", "old", "--yes"); !strings.Contains(stderr, "projection old is retired") {
		t.Errorf("a rebuild of a retired projection: %s", stderr)
	}
	s.projectorCommand(2, "projections", "drop", "old", "--yes")
	if _, stderr := s.projectorCommand(1, "projections", "drop", "users", "--yes", "--why=x"); !strings.Contains(stderr, "projection users is not retired") {
		t.Errorf("a drop of a projection in use: %s", stderr)
	}
	if _, stderr := s.projectorCommand(1, "projections", "drop", "old", "--why=replaced"); !strings.Contains(stderr, "delete the collections oldReadModels of projection old, with about 2 documents, and its watermarks and parked list") {
		t.Errorf("a drop without --yes: %s", stderr)
	}
	s.projectorCommand(0, "projections", "drop", "old", "--yes", "--why=replaced")
	models, watermarks := s.documents(s.models.Collection("oldReadModels")), s.documents(s.models.Collection("watermarks"))
	if markers := s.parked(); markers != 1 || models != 0 || watermarks != 1 {
		t.Errorf("left are %d read models, %d watermarks and %d markers", models, watermarks, markers)
	}
	if state := s.projectorList("projections", "list")[0]["state"]; state != "dropped" {
		t.Errorf("the projection is %v", state)
	}
	s.projectorCommand(1, "projections", "drop", "old", "--yes", "--why=replaced")
	if n := len(s.projectorList("audit", "--command=projections")); n != 5 {
		t.Errorf("the audit has %d changes of projections, want 5", n)
	}
}
