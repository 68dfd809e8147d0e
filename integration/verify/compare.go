package verify

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Fields that the projector adds to a read model.
const (
	lastEventID    = "lastEventId"
	lastUpdatedAt  = "lastUpdatedAt"
	lastGeneration = "lastGeneration"
)

// compareDocument describes how a read model differs from the expected one; empty if it
// does not.
func compareDocument(got bson.M, exp want) string {
	shown, _ := Plain(got).(bson.M)
	if shown[lastEventID] != exp.lastEventID {
		return fmt.Sprintf("its %s is %v, not %v", lastEventID, shown[lastEventID], exp.lastEventID)
	}
	if _, ok := shown[lastUpdatedAt].(time.Time); !ok {
		return fmt.Sprintf("its %s is %v, not a date", lastUpdatedAt, shown[lastUpdatedAt])
	}
	delete(shown, "_id")
	delete(shown, lastEventID)
	delete(shown, lastUpdatedAt)
	delete(shown, lastGeneration)

	due, _ := Plain(exp.document).(bson.M)
	for _, field := range sortedKeys(due) {
		value, there := shown[field]
		if !there {
			return fmt.Sprintf("it has no %s, which is due: %v", field, due[field])
		}
		if !reflect.DeepEqual(value, due[field]) {
			return fmt.Sprintf("its %s is %v, not %v", field, value, due[field])
		}
		delete(shown, field)
	}
	for _, field := range sortedKeys(shown) {
		return fmt.Sprintf("it has a field %s that it should not have: %v", field, shown[field])
	}
	return ""
}

// Plain normalises a value: integers become int64, dates UTC milliseconds, and documents
// maps without an order.
func Plain(value any) any {
	switch v := value.(type) {
	case bson.M:
		fields := make(bson.M, len(v))
		for key, field := range v {
			fields[key] = Plain(field)
		}
		return fields
	case bson.D:
		fields := make(bson.M, len(v))
		for _, e := range v {
			fields[e.Key] = Plain(e.Value)
		}
		return fields
	case bson.A:
		list := make(bson.A, len(v))
		for i, element := range v {
			list[i] = Plain(element)
		}
		return list
	case int32:
		return int64(v)
	case int:
		return int64(v)
	case bson.DateTime:
		return v.Time().UTC()
	case time.Time:
		return v.UTC().Truncate(time.Millisecond)
	default:
		return value
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
