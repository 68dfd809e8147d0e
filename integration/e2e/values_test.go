package e2e_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/workload"
)

const verbatim = `
projections:
  - name: verbatim
    collection: verbatim
    on:
      Stored:
        set: {stored: payload.value}
      Live:
        set: {live: payload.value}
      Large:
        set: {large: payload.value}
`

// One payload reaches the projector by three routes: from the event store because the topic
// never had it, over the topic, and by a claim check. The read model holds the same bytes
// three times.
func TestReplayWritesTheSameBytesAsTheTopic(t *testing.T) {
	scene(t, replayWritesTheSameBytesAsTheTopic)
}

func replayWritesTheSameBytesAsTheTopic(t *testing.T) {
	t.Helper()
	s := newScenario(t, &workload.Workload{Name: "verbatim", Projections: []byte(verbatim)})
	value := bson.D{
		{Key: "long", Value: int64(5)}, {Key: "int", Value: int32(5)}, {Key: "huge", Value: int64(1) << 40},
		{Key: "double", Value: 10.0}, {Key: "minusZero", Value: math.Copysign(0, -1)}, {Key: "nan", Value: math.Float64frombits(0x7ff8000000000000)},
		{Key: "decimal", Value: bson.NewDecimal128(0x3040000000000000, 110)}, {Key: "binary", Value: bson.Binary{Subtype: 2, Data: []byte{1, 2}}},
		{Key: "date", Value: bson.DateTime(-1)}, {Key: "uuid", Value: bson.Binary{Subtype: 4, Data: make([]byte, 16)}},
		{Key: "nested", Value: bson.A{bson.D{{Key: "long", Value: int64(7)}}, int64(8), int32(9)}},
		{Key: "scope", Value: bson.CodeWithScope{Code: "f", Scope: bson.D{{Key: "long", Value: int64(6)}}}},
	}
	insert := func(aggregate string, id int, eventType string, payload bson.D) {
		t.Helper()
		if _, err := s.events.InsertOne(t.Context(), bson.D{
			{Key: "aggregateId", Value: aggregate}, {Key: "eventId", Value: id}, {Key: "eventType", Value: eventType}, {Key: "payload", Value: payload},
		}); err != nil {
			t.Fatal(err)
		}
	}
	insert("a", 1, "Stored", bson.D{{Key: "value", Value: value}})
	s.SetEnv("PENSTOCK_START=now")
	s.start(1, 1)

	// The stream begins some time after the start. So insert events of another aggregate
	// until one of them has passed.
	model := func(id string) bson.Raw {
		raw, err := s.models.Collection("verbatim").FindOne(t.Context(), bson.D{{Key: "_id", Value: id}}).Raw()
		if err != nil {
			return nil
		}
		return raw
	}
	probes, last := 0, time.Time{}
	s.await("the stream", func() bool {
		if time.Since(last) > 500*time.Millisecond {
			probes, last = probes+1, time.Now()
			insert("probe", probes, "Live", bson.D{{Key: "value", Value: probes}})
		}
		return model("probe") != nil
	})
	insert("a", 2, "Live", bson.D{{Key: "value", Value: value}})
	insert("a", 3, "Large", bson.D{{Key: "value", Value: value}, {Key: "filling", Value: strings.Repeat("x", 2<<20)}})
	s.await("the read model", func() bool { return model("a") != nil && model("a").Lookup("lastEventId").AsInt64() == 3 })

	document := model("a")
	stored, live, large := document.Lookup("stored"), document.Lookup("live"), document.Lookup("large")
	if string(stored.Value) != string(live.Value) || string(large.Value) != string(live.Value) {
		t.Errorf("from the event store\n%s\nover the topic\n%s\nby claim check\n%s", stored, live, large)
	}
	if long := live.Document().Lookup("long"); long.Type != bson.TypeInt64 || live.Document().Lookup("double").Type != bson.TypeDouble {
		t.Errorf("the read model from the topic is %s, want a 64-bit long and a double", live)
	}
	// The first event is older than the projection, so a build or a repair must have read
	// it.
	repaired := s.metric("projector-0", "penstock_projector_events_total", "outcome", "repaired")
	if built := s.metric("projector-0", "penstock_projector_refold_events_total", "kind", "build"); repaired+built == 0 {
		t.Error("the first event was not read from the event store")
	}
}
