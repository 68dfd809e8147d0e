package operate

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/bsontest"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/generation"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
	"github.com/penstock-cdc/penstock/projector/internal/stores"
	"github.com/penstock-cdc/penstock/projector/internal/verify"
)

// TestResubmissionRepairsManyAggregatesAtOnce checks that the read models of the aggregates
// are brought up to date and proven. The messages stay if the aggregate is parked, cannot
// be folded, or its event is not in the event store.
func TestResubmissionRepairsManyAggregatesAtOnce(t *testing.T) {
	t.Parallel()
	db := server.Database(t)
	s := &stores.Stores{ReadModels: db, State: db, Events: db.Collection("events")}
	var c config.Config
	c.Fields, c.Projections.Sequence = event.DefaultFields(), string(event.SequenceStrict)
	c.History.RefoldRate = new(60)
	e := &Environment{Config: c, Logger: zerolog.Nop()}
	parked := park.NewStore(park.In(s.State), park.Options{})
	data := &stored{Stores: s, environment: e, catalog: generation.NewCatalog(mongox.Durable(db, generation.CatalogName), ""), parked: parked}
	mongotest.IndexEvents(t, s.Events)
	if err := readmodel.Prepare(t.Context(), db, []string{"visits"}); err != nil {
		t.Fatal(err)
	}
	err := e.withReadModels(t.Context(), data, func(store verify.Store) error {
		if _, err := newResubmission(t.Context(), e, data, store); err == nil || !strings.Contains(err.Error(), "start a projector first") {
			t.Errorf("without a live projection: %v", err)
		}
		catalog := generation.NewCatalog(mongox.Durable(db, generation.CatalogName), c.Pipeline().String())
		entry := generation.Create(c.Pipeline().String(), generation.Declare(projectiontest.One(t, visitsYAML))[0], generation.Found{}, generation.Author{At: time.Now()})
		if _, err := catalog.Write(t.Context(), nil, entry); err != nil {
			return err
		}
		if _, err := newResubmission(t.Context(), e, data, store); !errors.Is(err, errOtherReadModels) {
			t.Errorf("in a database in which the pipeline owns nothing: %v", err)
		}
		own(t, db, c.Pipeline(), "read model", "visits")
		const aggregates = 30
		var letters []deadLetter
		stored := make([]any, 0, 2*aggregates)
		for i := range aggregates {
			id := fmt.Sprint("right-", i)
			stored = append(stored, came(id, 1, 1), came(id, 2, 1))
			letters = append(letters, deadLetter{Sequence: int64(i), AggregateID: id, EventID: 1 + int64(i%2), raw: bsontest.Value(id)})
		}
		why := map[string]string{
			"failing": "is not repaired", "parked": "is parked in projection visits", "gone": "no readable event 3",
			"set aside": "is discarded in projection visits: use deadletters discard", "mendable": "is parked in projection visits",
		}
		stored = append(stored, came("failing", 1, 0), came("parked", 1, 1), came("gone", 1, 1), came("set aside", 1, 0), came("mendable", 1, 1), came("mendable", 2, 0))
		numbers := map[string]int64{"gone": 3, "mendable": 2}
		for id := range why {
			number := max(1, numbers[id])
			letters = append(letters, deadLetter{Sequence: 1000 + int64(len(id)), AggregateID: id, EventID: number, raw: bsontest.Value(id)})
		}
		if _, err := s.Events.InsertMany(t.Context(), stored); err != nil {
			return err
		}
		// The read model of the last one lacks the event before the parked one too.
		for _, id := range []string{"parked", "set aside", "mendable"} {
			at := max(1, numbers[id])
			unit := model.Unit{Projection: "visits", Collection: "visits", AggregateID: id}
			if err := parked.Park(t.Context(), []model.Marker{{Unit: unit, Reason: "expression", EventID: at, Head: at}}); err != nil {
				return err
			}
		}
		aside, err := parked.List(t.Context(), park.Filter{AggregateID: "set aside"}, 10)
		if err != nil {
			return err
		}
		if n, err := parked.Discard(t.Context(), aside, park.Discard{Who: "ada", Why: "accepted", At: time.Now()}); n != 1 || err != nil {
			t.Errorf("%d discarded, %v", n, err)
		}

		r, err := newResubmission(t.Context(), e, data, store)
		if err != nil {
			return err
		}
		began := time.Now()
		kept, err := r.apply(t.Context(), letters)
		if err != nil {
			return err
		}
		// Each of the 30 aggregates has two events, which are read at least three times: to
		// find, to fold and to look again. The first 60 events are read at once.
		if took := time.Since(began); took < 2*time.Second {
			t.Errorf("at least 180 events were read in %v at 60 events per second", took)
		}
		for _, d := range letters {
			if got := kept[d.Sequence]; why[d.AggregateID] == "" && got != "" || !strings.Contains(got, why[d.AggregateID]) {
				t.Errorf("event %d of %s: %q", d.EventID, d.AggregateID, got)
			}
		}
		right, err := db.Collection("visits").CountDocuments(t.Context(), bson.D{{Key: "count", Value: 2}, {Key: "lastEventId", Value: 2}})
		if err != nil || right != aggregates {
			t.Errorf("%d read models are right, want %d; %v", right, aggregates, err)
		}
		if len(r.found.findings) != 0 {
			t.Errorf("%d findings are kept", len(r.found.findings))
		}
		for _, collection := range []string{"jobs", "findings"} {
			if n, err := db.Collection(collection).CountDocuments(t.Context(), bson.D{}); n != 0 || err != nil {
				t.Errorf("%d documents are left in %s, %v", n, collection, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
