package engine_test

import (
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

const snapshotYAML = `
snapshots: [Snap]
projections:
  - name: counts
    collection: counts
    on:
      Add: {inc: {n: 1}, push: {ids: eventId}}
      Bad: {set: {x: payload.missing}}
      Gone: {delete: true}
      Snap: {set: {n: eventId}}
`

// TestHistoryBeginsAnewWithASnapshot processes messages while the event store lacks events of the
// aggregate. It begins anew only if all events before a snapshot are gone.
func TestHistoryBeginsAnewWithASnapshot(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		watermark int64
		document  string
		history   string
		batch     string
		want      int64
		becomes   string
		parked    int64
	}{
		"nothing is stored":                {0, "", "10 Snap", "10 Snap", 10, `{"n":10}`, 0},
		"a later message":                  {0, "", "10 Snap,11 Add,12 Add", "12 Add", 12, `{"ids":[11,12],"n":12}`, 0},
		"an earlier message":               {0, "", "10 Snap,11 Add", "4 Add", 10, `{"n":10}`, 0},
		"the document is replaced":         {3, `{"ids":[1,2,3],"n":3,"x":1}`, "10 Snap,11 Add", "11 Add", 11, `{"ids":[11],"n":11}`, 0},
		"messages before, at and after it": {3, `{"ids":[1,2,3],"n":3}`, "10 Snap,11 Add,12 Add", "5 Add,10 Snap,10 Snap,11 Add,12 Add", 12, `{"ids":[11,12],"n":12}`, 0},
		"only messages before it":          {3, `{"ids":[1,2,3],"n":3}`, "10 Snap,11 Add", "5 Add,6 Add", 10, `{"n":10}`, 0},
		"a gap after it":                   {0, "", "10 Snap", "10 Snap,12 Add", 10, `{"n":10}`, 11},
		"it follows the watermark":         {9, `{"ids":[1],"n":3}`, "10 Snap", "10 Snap", 10, `{"ids":[1],"n":10}`, 0},
		"a duplicate":                      {12, `{"n":12}`, "10 Snap,11 Add,12 Add", "3 Add,10 Snap", 12, `{"n":12}`, 0},
		"the events before it are lost":    {3, `{"n":3}`, "3 Add,10 Snap", "10 Snap", 3, `{"n":3}`, 4},
		"the history begins otherwise":     {0, "", "9 Add,10 Snap", "10 Snap", 0, "nil", 1},
		"nothing is in the event store":    {0, "", "", "10 Snap", 0, "nil", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			split := func(list string) []string { return strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) }
			begin := func() *bench {
				b := newBench(t, snapshotYAML)
				b.history.events = events(t, "one", split(test.history)...)
				b.stored(test.watermark, test.document)
				return b
			}
			b := begin()
			batch := events(t, "one", split(test.batch)...)
			b.process(t, batch, fresh, strings.TrimSuffix(strings.Repeat("done/", len(batch)), "/"))
			b.expect(t, "counts", "one", test.want, test.becomes)
			if test.parked > 0 {
				b.expectParked(t, "counts", "one", projection.ReasonMissing, test.parked, batch[len(batch)-1].EventID)
			} else if len(b.parking.parked) > 0 {
				t.Errorf("parked %v", b.parking.parked)
			}

			// A unit that continues without the topic ends in the same state.
			b = begin()
			if _, err := engine.CatchUp(t.Context(), b, suspended(test.want), nil); err != nil {
				t.Fatal(err)
			}
			b.expect(t, "counts", "one", test.want, test.becomes)
		})
	}
}

// TestBuildingGenerationBeginsWithASnapshot has a generation that is being built take a message
// whose earlier events are archived. While it defers, its job folds them.
func TestBuildingGenerationBeginsWithASnapshot(t *testing.T) {
	t.Parallel()
	for _, defers := range []bool{true, false} {
		p := projectiontest.One(t, snapshotYAML)
		building := engine.Target{Projection: p, Generation: 2, Collection: "counts.generation-2", Building: true, Defers: defers}
		b := newBench(t, snapshotYAML, func(o *benchOptions) { o.targets = []engine.Target{{Projection: p}, building} })
		b.history.events = events(t, "one", "10 Snap", "11 Add")
		b.process(t, events(t, "one", "11 Add"), fresh, "done")
		b.expect(t, "counts", "one", 11, `{"ids":[11],"n":11}`)
		want := map[bool]int64{true: 0, false: 11}[defers]
		if got := b.marks[building.Unit("one")]; got != want {
			t.Errorf("defers %v: watermark %d, want %d", defers, got, want)
		}
	}
}

// TestFirstEventOfAForgottenAggregateIsADuplicate delivers the first event of an aggregate whose
// snapshot has no rule, so that only its watermark is stored.
func TestFirstEventOfAForgottenAggregateIsADuplicate(t *testing.T) {
	t.Parallel()
	const yaml = `{snapshots: [Snap], projections: [{name: things, collection: things, on: {Add: {set: {last: eventId}}}}]}`
	b := newBench(t, yaml)
	b.marks[unitOf("things", "one")] = 12
	b.onWrite = func(int, model.Write) *model.Written {
		t.Error("the late event is written")
		return nil
	}
	session := b.Session(1 << 20)
	if got, err := session.Process(t.Context(), events(t, "one", "1 Add"), fresh); err != nil || verdicts(got) != "done" {
		t.Errorf("%v, %v", verdicts(got), err)
	}
}
