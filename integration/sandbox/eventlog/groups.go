package eventlog

import (
	"maps"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/workload"
)

// The view of projections.yaml.tmpl: each group with the cases that it owns and that are
// open.
const (
	groups          = "groups"
	groupCollection = "groupReadModels"
	groupField      = "org_group"
	completedEvent  = "Completed"
)

// groupedTypes returns the aggregate types of a log whose cases have groups and are completed
// in the end; none if it is another log.
func groupedTypes(events []workload.Event) []string {
	types, named, completed := make(map[string]struct{}), false, false
	for i := range events {
		ev := &events[i]
		group, there := groupOf(ev)
		if ev.AggregateType == "" || there && group == "" {
			return nil
		}
		types[ev.AggregateType] = struct{}{}
		named, completed = named || there, completed || ev.EventType == completedEvent
	}
	if !named || !completed {
		return nil
	}
	return slices.Sorted(maps.Keys(types))
}

// groupOf returns the group in an event, which is empty if it is no text.
func groupOf(ev *workload.Event) (group string, there bool) {
	for _, e := range ev.Payload {
		if e.Key == groupField {
			group, _ = e.Value.(string)
			return group, true
		}
	}
	return "", false
}

// groupView is the oracle of the view.
func groupView(aggregateTypes []string) workload.View {
	return workload.View{Projection: groups, Collection: groupCollection, AggregateTypes: aggregateTypes, Fold: foldGroups}
}

func foldGroups(histories [][]workload.Event) map[string]bson.M {
	documents := make(map[string]bson.M)
	for _, history := range histories {
		group, opened := "", history[0].Timestamp
		for i := range history {
			if named, there := groupOf(&history[i]); there {
				group = named
			}
			if at := history[i].Timestamp; at.Before(opened) {
				opened = at
			}
		}
		last := history[len(history)-1]
		if last.EventType == completedEvent || group == "" {
			continue
		}
		if documents[group] == nil {
			documents[group] = bson.M{"parts": int64(0), "count": int64(0), "cases": bson.M{}}
		}
		document := documents[group]
		document["parts"] = document["parts"].(int64) + 1
		document["count"] = document["count"].(int64) + 1
		if oldest, ok := document["oldestAt"].(time.Time); !ok || opened.Before(oldest) {
			document["oldestAt"] = opened
		}
		document["cases"].(bson.M)[last.AggregateID] = bson.M{"group": group, "lastType": last.EventType, "openedAt": opened}
	}
	return documents
}
