package projection_test

import (
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// snapshotting has two projections of accounts, one of which has no rule for the snapshot, and one
// of orders.
const snapshotting = `
snapshots: [Snapshotted]
projections:
  - name: accounts
    collection: accounts
    on:
      Opened: {set: {name: payload.name}}
      Snapshotted: {set: {name: payload.name}}
  - {name: names, collection: names, on: {Opened: {set: {name: payload.name}}}}
  - {name: orders, collection: orders, on: {Placed: {inc: {n: 1}}}}
`

func TestHistoryBeginsWithASnapshot(t *testing.T) {
	t.Parallel()
	p := projectiontest.All(t, snapshotting)[0]
	inCode := inCode(t, projection.Declaration{Name: "p", Collection: "c", Snapshots: []string{"Snapshotted"}, Apply: func(state projection.State, _ *event.Event) (projection.State, error) { return state, nil }})
	for name, test := range map[string]struct {
		eventType string
		id, first int64
		begins    int64
	}{
		"a snapshot":                     {"Snapshotted", 7, 1, 7},
		"a snapshot as the first event":  {"Snapshotted", 1, 1, 1},
		"another event":                  {"Opened", 7, 1, 1},
		"another event, and ids from 0":  {"Opened", 7, 0, 0},
		"a snapshot before the first id": {"Snapshotted", 0, 1, 1},
	} {
		for _, p := range []*projection.Projection{p, inCode} {
			if at := p.BeginsAt(projectiontest.Event(test.id, test.eventType, ""), test.first); at != test.begins {
				t.Errorf("%s: begins at %d, want %d", name, at, test.begins)
			}
		}
	}
	if p.Forgets() || !inCode.Forgets() || !projectiontest.All(t, snapshotting)[1].Forgets() {
		t.Error("a projection whose rules are for each snapshot forgets, or another one does not")
	}
}

func TestSnapshotsAreChecked(t *testing.T) {
	t.Parallel()
	for list, says := range map[string]string{
		"Snapshotted": "test.yaml:2:12: snapshots is a list: each starts with a dash",
		"[A, A]":      "test.yaml:2:16: snapshots: the event type is there twice",
		"[A, '']":     "the event type is empty",
		"[{A: 1}]":    "this takes a text",
	} {
		_, err := projection.Parse("test.yaml", []byte(strings.Replace(snapshotting, "[Snapshotted]", list, 1)))
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", list, err)
		}
	}
}

// TestFoldAnewReplacesTheStoredDocument folds a snapshot from nothing, whatever is stored.
func TestFoldAnewReplacesTheStoredDocument(t *testing.T) {
	t.Parallel()
	p := projectiontest.All(t, snapshotting)[0]
	snapshot := []*projection.Event{projection.NewEvent(projectiontest.Event(7, "Snapshotted", `{"name":"new"}`))}
	stored := testkit.FromJSON(`{"_id":"a","lastEventId":{"$numberLong":"3"},"name":"old","other":1}`)
	f := p.FoldAnew(t.Context(), stored, snapshot, projection.Unbounded)
	f.Conclude()
	if got := projectiontest.JSON(t, f.Update); f.Kind != model.Update || got != `{"$set":{"name":"new"},"$unset":{"other":""}}` {
		t.Errorf("update %s", got)
	}
	f = projectiontest.All(t, snapshotting)[1].FoldAnew(t.Context(), stored, snapshot, projection.Unbounded)
	if f.Conclude(); f.Kind != model.Delete {
		t.Errorf("kind %v without a rule", f.Kind)
	}
}
