package eventlog

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/workload"
)

// cases is the collection of projections.yaml.tmpl.
const cases = "caseReadModels"

// fold is the oracle of projections.yaml.tmpl.
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
