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

	building := func(want string) {
		t.Helper()
		var entry struct {
			Building struct {
				Generation, AllowParked int64
				Hash, State, Who, Why   string
			}
		}
		if err := s.state.Collection("projections").FindOne(t.Context(), bson.D{{Key: "_id", Value: "users"}}).Decode(&entry); err != nil {
			t.Fatal(err)
		}
		b := entry.Building
		if got := fmt.Sprintf("%s %s %d %s %s", b.Hash, b.State, b.AllowParked, strings.Split(b.Who, "@")[0], b.Why); b.Generation <= 2 || got != want {
			t.Errorf("generation %d is building: %s, want %s", b.Generation, got, want)
		}
	}
	s.steps(
		step{"projector projections list", 0, "retired … failed … 3 documents differ … oldReadModels"},
		step{"projector projections show users", 0, `users.2.build … {"name":"users"}`},
		step{"projector projections show items", 1, `there is no projection "items": the catalog has old, users`},
		step{"projector projections rebuild users", 1, "of projection users by definition bbbb, instead of generation 2, which is failed: 3 documents differ"},
		step{"projector projections rebuild users --yes --why=disk", 0, ""},
	)
	building("bbbb building 0 ada disk")
	// The file has another definition, which no projector declares.
	file := s.projectionsFile(strings.NewReplacer("name: counts", "name: users", "collection: counts", "collection: users").Replace(countsProjection))
	s.steps(
		step{"projector projections rebuild users --yes", 1, ""},
		step{"projector projections rebuild users --yes --allow-parked=2", 0, ""},
	)
	building("bbbb building 2 ada disk")
	s.steps(
		step{"projector projections rebuild users --yes --projections=" + file, 1, "no running projector declares definition"},
		step{"projector projections cancel users", 1, "give up generation  … of projection users, which is building"},
		step{"projector projections cancel users --yes --why=factor", 0, "generation 1 stays live"},
		step{"projector projections show users", 0, "factor"},
		step{"projector projections cancel users --yes", 1, "projection users builds no generation"},
		step{"projector projections rebuild old --yes", 1, "projection old is retired"},
		step{"projector projections drop old --yes", 2, ""},
		step{"projector projections drop users --yes --why=x", 1, "projection users is not retired"},
		step{"projector projections drop old --why=replaced", 1, "delete the collections oldReadModels of projection old, with about 2 documents, and its watermarks and parked list"},
		step{"projector projections drop old --yes --why=replaced", 0, ""},
		step{"projector projections drop old --yes --why=replaced", 1, ""},
		step{"projector projections list", 0, "dropped"},
	)
	models, watermarks := s.documents(s.models.Collection("oldReadModels")), s.documents(s.models.Collection("watermarks"))
	if markers := s.parked(); markers != 1 || models != 0 || watermarks != 1 {
		t.Errorf("left are %d read models, %d watermarks and %d markers", models, watermarks, markers)
	}
	if n := len(s.projectorList("audit", "--command=projections")); n != 4 {
		t.Errorf("the audit has %d changes of projections, want 4", n)
	}
}
