package eventlog

import (
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/workload"
)

// cases is the collection of the projection in projections.yaml.tmpl.
const cases = "caseReadModels"

// fold is an independent fold for projections.yaml.tmpl.
func fold(events []workload.Event) (string, bson.M) {
	var first time.Time
	history := make(bson.A, 0, len(events))
	for i, ev := range events {
		if i == 0 || ev.Timestamp.Before(first) {
			first = ev.Timestamp
		}
		history = append(history, bson.M{"event": ev.EventID, "type": ev.EventType, "at": ev.Timestamp})
	}
	last := events[len(events)-1]
	return cases, bson.M{
		"events":      int64(len(events)),
		"history":     history,
		"lastType":    last.EventType,
		"lastPayload": last.Payload,
		"firstAt":     first,
	}
}

// foldChanged is an independent fold for the changed projections.
func foldChanged(events []workload.Event) (string, bson.M) {
	collection, document := fold(events)
	var types bson.A
	last := events[0].Timestamp
	for _, ev := range events {
		if !slices.Contains(types, any(ev.EventType)) {
			types = append(types, ev.EventType)
		}
		if ev.Timestamp.After(last) {
			last = ev.Timestamp
		}
	}
	document["types"], document["lastAt"] = types, last
	return collection, document
}
