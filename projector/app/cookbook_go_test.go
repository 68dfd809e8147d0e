package app_test

import (
	"errors"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/app"
)

type meter struct {
	Readings []int64 `bson:"readings"`
	Median   int64   `bson:"median"`
}

func applyReading(m *meter, ev *event.Event) (*meter, error) {
	if ev.EventType != "MeterRead" {
		return m, nil
	}
	reading, ok := ev.Payload.Document().Lookup("value").AsInt64OK()
	if !ok {
		return nil, errors.New("the reading has no value")
	}
	if m == nil {
		m = &meter{}
	}
	m.Readings = append(m.Readings, reading)
	m.Readings = m.Readings[max(0, len(m.Readings)-5):]
	sorted := slices.Sorted(slices.Values(m.Readings))
	m.Median = sorted[len(sorted)/2]
	return m, nil
}

// TestCookbookMedian runs the recipe in Go.
func TestCookbookMedian(t *testing.T) {
	t.Parallel()
	meters, err := app.NewProjection(app.Declaration{
		Name: "meters", Collection: "meterReadModels", AggregateType: "Meter",
		Version: "1", // change it whenever the same events would give another read model
		Apply:   app.Typed(applyReading),
	})
	if err != nil {
		t.Fatal(err)
	}
	var events []*event.Event
	for i, value := range []any{100, 1, 9, 3, 5, 7, 4, "none"} {
		events = append(events, &event.Event{
			Keys:    event.Keys{AggregateID: "m", AggregateType: "Meter", EventID: int64(i + 1), EventType: "MeterRead"},
			Payload: testkit.Value(bson.D{{Key: "value", Value: value}}),
		})
	}
	fold := meters.Fold(nil, events)
	var got meter
	if err := bson.Unmarshal(fold.State(), &got); err != nil || got.Median != 5 || !slices.Equal(got.Readings, []int64{9, 3, 5, 7, 4}) || fold.Err == nil || fold.Err.EventID != 8 {
		t.Errorf("the document is %+v, the error %v; %v", got, fold.Err, err)
	}
}
