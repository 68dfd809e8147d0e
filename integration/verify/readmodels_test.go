package verify_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/mongoemu/mongoemutest"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
	"github.com/penstock-cdc/penstock/integration/verify"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// shopModels has a shop's events by aggregate, and the read models that a projector would
// make of them.
type shopModels struct {
	fold      workload.Fold
	histories map[string][]workload.Event
}

// model returns the read model of some of an aggregate's events; the document is nil if
// none is visible.
func (s shopModels) model(events []workload.Event, last int64) (collection string, document bson.M) {
	collection, document = s.fold(events)
	if document != nil {
		document["_id"], document["lastEventId"], document["lastUpdatedAt"] = events[0].AggregateID, last, time.Now()
	}
	return collection, document
}

// like returns the events of the first aggregate by id that has all these event types, each
// as often as it is named. Its read model is visible or not, as requested.
func (s shopModels) like(t *testing.T, visible bool, eventTypes ...string) []workload.Event {
	t.Helper()
	var ids []string
	for id, history := range s.histories {
		_, document := s.fold(history)
		left := slices.Clone(eventTypes)
		for _, ev := range history {
			if i := slices.Index(left, ev.EventType); i >= 0 {
				left = slices.Delete(left, i, i+1)
			}
		}
		if len(left) == 0 && (document != nil) == visible {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		t.Fatalf("no aggregate has %v", eventTypes)
	}
	return s.histories[slices.Min(ids)]
}

// Every fault in one read model of many is found, and nothing else.
func TestReadModels(t *testing.T) {
	t.Parallel()
	client := mongoemutest.Connect(t, mongoemutest.Start(t, mongoemu.Config{}))
	w := shop.New(1500, 3)
	events := client.Database("shop").Collection("events")
	if _, err := events.InsertMany(t.Context(), w.Events); err != nil {
		t.Fatal(err)
	}
	s := shopModels{w.Fold, make(map[string][]workload.Event)}
	for _, ev := range w.Events {
		s.histories[ev.AggregateID] = append(s.histories[ev.AggregateID], ev)
	}
	user := s.like(t, true, "UserRegisteredEvent")
	deleted := s.like(t, false, "UserDeletedEvent")
	order := s.like(t, true, "ItemAddedToOrderEvent", "ItemAddedToOrderEvent", "OrderPaidEvent")
	item := s.like(t, true, "ItemPriceChangedEvent", "ItemPriceChangedEvent")
	added := slices.IndexFunc(order, func(ev workload.Event) bool { return ev.EventType == "ItemAddedToOrderEvent" })
	last := func(history []workload.Event) int64 { return history[len(history)-1].EventID }
	swapped := slices.Clone(item)
	slices.Reverse(swapped[1:])

	for name, test := range map[string]struct {
		spoil func(*spoiler)
		until map[string]int64
		says  []string // in this order; empty: no findings
	}{
		"correct":                                  {func(*spoiler) {}, nil, nil},
		"document missing":                         {func(p *spoiler) { p.remove(order) }, nil, []string{": is missing"}},
		"an event behind":                          {func(p *spoiler) { p.put(order[:len(order)-1], last(order)-1) }, nil, []string{": its lastEventId is"}},
		"an event lost":                            {func(p *spoiler) { p.put(slices.Delete(slices.Clone(order), added, added+1), last(order)) }, nil, []string{": its items is"}},
		"an event applied twice":                   {func(p *spoiler) { p.put(slices.Insert(slices.Clone(order), added, order[added]), last(order)) }, nil, []string{": its items is"}},
		"events swapped":                           {func(p *spoiler) { p.put(swapped, last(item)) }, nil, []string{": its price"}},
		"document of another aggregate":            {func(p *spoiler) { p.insert("orderReadModels", bson.M{"_id": user[0].AggregateID}) }, nil, []string{"no event speaks of it"}},
		"document without events":                  {func(p *spoiler) { p.insert("orderReadModels", bson.M{"_id": 7}) }, nil, []string{"no event speaks of it"}},
		"deleted document restored":                {func(p *spoiler) { p.put(deleted[:1], 1) }, nil, []string{"its aggregate was deleted"}},
		"two documents missing":                    {func(p *spoiler) { p.remove(item); p.remove(order) }, nil, []string{"is missing", "is missing"}},
		"parked, document at the parked event":     {func(p *spoiler) { p.put(order[:2], 2) }, map[string]int64{order[0].AggregateID: 2}, nil},
		"parked, document beyond the parked event": {func(*spoiler) {}, map[string]int64{order[0].AggregateID: 2}, []string{": its lastEventId is"}},
		"parked at the first event, no document": {
			func(p *spoiler) { p.remove(order) }, map[string]int64{order[0].AggregateID: 0}, nil,
		},
		"parked at the first event, document exists": {
			func(*spoiler) {}, map[string]int64{order[0].AggregateID: 0}, []string{"no event speaks of it"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &spoiler{t: t, shop: s, models: client.Database(strings.NewReplacer(" ", "_", ",", "").Replace(name))}
			p.project()
			test.spoil(p)
			report, err := verify.ReadModels(t.Context(), events, p.models, w.Oracle, test.until)
			if err != nil {
				t.Fatal(err)
			}
			if report.OK() != (len(test.says) == 0) || report.Wrong() != len(test.says) || len(report.Findings) != len(test.says) {
				t.Fatalf("%d of %d right, findings %q, not %q", report.Right, report.Expected, report.Findings, test.says)
			}
			for i, want := range test.says {
				if !strings.Contains(report.Findings[i], want) {
					t.Errorf("says %q, not %q", report.Findings[i], want)
				}
			}
			if report.Events != len(w.Events) || report.Aggregates != w.Aggregates() {
				t.Errorf("counts %d events of %d aggregates", report.Events, report.Aggregates)
			}
		})
	}
}

// Every fault in one document of a view is found. The views are folded from the events of
// all their aggregates.
func TestViews(t *testing.T) {
	t.Parallel()
	client := mongoemutest.Connect(t, mongoemutest.Start(t, mongoemu.Config{}))
	w := shop.WithViews(400, 5)
	events := client.Database("shop").Collection("events")
	if _, err := events.InsertMany(t.Context(), w.Events); err != nil {
		t.Fatal(err)
	}
	histories := make(map[string][]workload.Event)
	for _, ev := range w.Events {
		histories[ev.AggregateID] = append(histories[ev.AggregateID], ev)
	}
	view := w.Views[0]
	folded := func() map[string]bson.M {
		var all [][]workload.Event
		for _, id := range slices.Sorted(maps.Keys(histories)) {
			if slices.Contains(view.AggregateTypes, histories[id][0].AggregateType) {
				all = append(all, histories[id])
			}
		}
		return view.Fold(all)
	}
	key := slices.Min(slices.Collect(maps.Keys(folded())))
	for name, test := range map[string]struct {
		spoil func(documents map[string]bson.M)
		says  string // empty: no finding
	}{
		"correct":                      {func(map[string]bson.M) {}, ""},
		"document missing":             {func(d map[string]bson.M) { delete(d, key) }, key + ": is missing"},
		"document without parts":       {func(d map[string]bson.M) { d["nobody"] = bson.M{} }, "nobody: is there"},
		"a part counted twice":         {func(d map[string]bson.M) { d[key]["parts"] = d[key]["parts"].(int64) + 1 }, ": its parts is"},
		"a total wrong":                {func(d map[string]bson.M) { d[key]["openCents"] = int64(-1) }, ": its openCents is"},
		"a part missing":               {func(d map[string]bson.M) { clear(d[key]["orders"].(bson.M)) }, ": its orders is"},
		"a watermark in the document":  {func(d map[string]bson.M) { d[key]["lastEventId"] = int64(1) }, ": its lastEventId is"},
		"a generation in the document": {func(d map[string]bson.M) { d[key]["lastGeneration"] = int64(2) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			models := client.Database(strings.ReplaceAll(name, " ", "_"))
			documents := folded()
			test.spoil(documents)
			for id, document := range documents {
				document["_id"], document["lastUpdatedAt"] = id, time.Now()
				if _, err := models.Collection(view.Collection).InsertOne(t.Context(), document); err != nil {
					t.Fatal(err)
				}
			}
			oracle := workload.Oracle{Fold: func([]workload.Event) (string, bson.M) { return "none", nil }, Views: []workload.View{view}}
			report, err := verify.ReadModels(t.Context(), events, models, oracle, nil)
			if err != nil {
				t.Fatal(err)
			}
			if test.says == "" && (!report.OK() || report.Right != len(documents)+len(histories)) {
				t.Errorf("%d of %d right, findings %q", report.Right, report.Expected, report.Findings)
			}
			if test.says != "" && (len(report.Findings) != 1 || !strings.Contains(report.Findings[0], test.says)) {
				t.Errorf("findings %q, not %q", report.Findings, test.says)
			}
		})
	}
}

// Without events, the comparison must not report success.
func TestComparisonWithoutEventsFails(t *testing.T) {
	t.Parallel()
	client := mongoemutest.Connect(t, mongoemutest.Start(t, mongoemu.Config{}))
	report, err := verify.ReadModels(t.Context(), client.Database("shop").Collection("events"), client.Database("models"),
		shop.New(1, 1).Oracle, nil)
	if err != nil || report.OK() {
		t.Errorf("an empty store: %+v, %v", report, err)
	}
}

// spoiler writes read models, right ones and wrong ones.
type spoiler struct {
	t      *testing.T
	shop   shopModels
	models *mongo.Database
}

// project writes all read models correctly.
func (p *spoiler) project() {
	p.t.Helper()
	documents := make(map[string][]any)
	for _, history := range p.shop.histories {
		if collection, document := p.shop.model(history, history[len(history)-1].EventID); document != nil {
			documents[collection] = append(documents[collection], document)
		}
	}
	for collection, all := range documents {
		if _, err := p.models.Collection(collection).InsertMany(p.t.Context(), all); err != nil {
			p.t.Fatal(err)
		}
	}
}

// put replaces the read model of these events.
func (p *spoiler) put(events []workload.Event, last int64) {
	p.t.Helper()
	collection, document := p.shop.model(events, last)
	_, err := p.models.Collection(collection).ReplaceOne(p.t.Context(), bson.D{{Key: "_id", Value: document["_id"]}}, document,
		options.Replace().SetUpsert(true))
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *spoiler) remove(events []workload.Event) {
	p.t.Helper()
	collection, _ := p.shop.fold(events)
	removed, err := p.models.Collection(collection).DeleteOne(p.t.Context(), bson.D{{Key: "_id", Value: events[0].AggregateID}})
	if err != nil || removed.DeletedCount != 1 {
		p.t.Fatal(fmt.Errorf("remove %s: %+v, %w", events[0].AggregateID, removed, err))
	}
}

func (p *spoiler) insert(collection string, document bson.M) {
	p.t.Helper()
	if _, err := p.models.Collection(collection).InsertOne(p.t.Context(), document); err != nil {
		p.t.Fatal(err)
	}
}
