package projectiontest

import (
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
)

func drawValue(t *rapid.T, depth int) any {
	switch rapid.IntRange(0, 7-2*min(depth, 1)).Draw(t, "kind") {
	case 0:
		return rapid.Int64Range(0, 3).Draw(t, "long")
	case 1:
		return rapid.Int32Range(0, 3).Draw(t, "int")
	case 2:
		return rapid.SampledFrom([]float64{0, 1, 1.5, 2}).Draw(t, "double")
	case 3:
		return rapid.SampledFrom([]string{"", "text", "a"}).Draw(t, "text")
	case 4:
		return nil
	case 5:
		return bson.NewDateTimeFromTime(eventTime)
	case 6:
		a := bson.A{}
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			a = append(a, drawValue(t, depth+1))
		}
		return a
	}
	d := bson.D{{Key: "x", Value: drawValue(t, depth+1)}, {Key: "k", Value: drawValue(t, depth+1)}}
	if rapid.Bool().Draw(t, "long") {
		// The document is long, so a change of one key is small in comparison.
		d = append(d, bson.E{Key: "rest", Value: strings.Repeat("long ", 20)})
	}
	return d
}

// DrawDocument draws a stored document, or nil.
func DrawDocument(t *rapid.T) bson.Raw {
	if rapid.Bool().Draw(t, "absent") {
		return nil
	}
	d := bson.D{{Key: "_id", Value: "a-1"}, {Key: "lastEventId", Value: int64(0)}}
	for _, name := range []string{"a", "b", "c", "d", "list", "other"} {
		if rapid.Bool().Draw(t, "has") {
			d = append(d, bson.E{Key: name, Value: drawValue(t, 0)})
		}
	}
	return testkit.Raw(d)
}

// DrawEvents draws events of the types A to D and one that no projection handles. Their
// payloads have the fields v, a number, and w, any value.
func DrawEvents(t *rapid.T) []*event.Event {
	var events []*event.Event
	for i := range rapid.IntRange(1, 8).Draw(t, "events") {
		payload := testkit.Value(bson.D{{Key: "v", Value: rapid.SampledFrom([]any{int64(1), int64(2), 1.5}).Draw(t, "v")}, {Key: "w", Value: drawValue(t, 0)}})
		events = append(events, &event.Event{
			Keys:    event.Keys{AggregateID: "a-1", EventID: int64(i + 1), EventType: rapid.SampledFrom([]string{"A", "A", "B", "B", "C", "C", "D", "Other"}).Draw(t, "type")},
			Payload: payload,
		})
	}
	return events
}
