package history

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// snapshotYAML folds an aggregate to the list of the ids of its events since the last snapshot with
// which the history begins.
const snapshotYAML = `
snapshots: [Snap]
projections:
  - name: orders
    collection: orders
    aggregateType: Order
    on:
      Good: {set: {applied: "state.?applied.orValue('') + string(eventId) + ','"}}
      Snap: {set: {applied: "state.?applied.orValue('') + string(eventId) + ','"}}
`

// archived is a history from a snapshot on.
func archived(aggregate string, from, to int64) []stored {
	events := historyOf(aggregate, to)[from-1:]
	events[0].kind = "Snap"
	return events
}

// archive deletes the events of an aggregate before an id.
func (w *world) archive(t *testing.T, aggregate string, before int64) {
	t.Helper()
	if _, err := w.events.DeleteMany(t.Context(), bson.D{{Key: "aggregateId", Value: aggregate}, {Key: "eventId", Value: bson.D{{Key: "$lt", Value: before}}}}); err != nil {
		t.Fatal(err)
	}
}

// TestArchivedHistoriesAreBuiltAndVerified builds, verifies, sweeps and repairs read models of
// aggregates whose histories begin with a snapshot, page by page too.
func TestArchivedHistoriesAreBuiltAndVerified(t *testing.T) {
	t.Parallel()
	middle := historyOf("middle", 6)
	middle[3].kind = "Snap"
	for _, long := range []int{2, batchLimits.long} {
		t.Run(fmt.Sprint(long), func(t *testing.T) {
			t.Parallel()
			w := newWorldOf(t, snapshotYAML, slices.Concat(archived("a", 5, 8), archived("behind", 5, 8), archived("new", 3, 3), middle)...)
			want := map[string]string{"a": "5,6,7,8,", "behind": "5,6,7,8,", "middle": "1,2,3,4,5,6,", "new": "3,"}
			workers := w.verifiers()
			workers.limits.long = long
			if err := workers.build(t.Context(), testJob, span{}, &saver{saves: -1}); err != nil || len(w.parked) > 0 {
				t.Fatalf("parked %v, %v", w.parked, err)
			}
			w.want(t, want)
			if found, _ := w.verify(t, workers, Params{}); len(found) > 0 {
				t.Errorf("found %v after the build", found)
			}

			// A read model of events that are archived meanwhile begins anew.
			behind := bson.D{{Key: "applied", Value: applied(1, 2)}, {Key: "lastEventId", Value: int64(2)}}
			w.change(t, "behind", "$set", behind)
			if found, _ := w.verify(t, workers, Params{}); !maps.Equal(kindsOf(found), map[string]Kind{"behind": Behind}) {
				t.Errorf("found %v of a read model that is behind", found)
			}
			w.sweep(t)
			w.want(t, want)
			w.change(t, "behind", "$set", behind)
			w.change(t, "a", "$set", one("applied", "wrong"))
			if found, counts := w.verify(t, workers, Params{Repair: true}); counts[CountRepaired] != 2 {
				t.Errorf("repaired %v, counts %v", found, counts)
			}
			w.want(t, want)

			// A read model that only lacks the events from the snapshot on is compared after it has them.
			w.change(t, "behind", "$set", bson.D{{Key: "applied", Value: applied(1, 4)}, {Key: "lastEventId", Value: int64(4)}})
			if found, counts := w.verify(t, workers, Params{Repair: true}); counts[CountRepaired] != 1 {
				t.Errorf("repaired %v, counts %v", found, counts)
			}
			w.want(t, want)
		})
	}
}

// TestHistoryWithoutItsFirstEventIsParked checks that no other event than a snapshot begins a
// history.
func TestHistoryWithoutItsFirstEventIsParked(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, snapshotYAML, slices.Concat(historyOf("a", 6)[2:], archived("b", 4, 6)[1:])...)
	w.build(t)
	w.want(t, map[string]string{})
	if w.parked["a"].Reason != "history" || w.parked["b"].Reason != "history" {
		t.Errorf("parked %v", w.parked)
	}
}

// TestEventsCanBeArchivedWhileTheyAreRead deletes the events before a snapshot before each request
// of a build, a sweep and a verification in turn.
func TestEventsCanBeArchivedWhileTheyAreRead(t *testing.T) {
	t.Parallel()
	for _, work := range []string{"build", "sweep", "verify"} {
		for at := 1; at <= 12; at++ {
			events := historyOf("a", 8)
			events[4].kind = "Snap"
			w := newWorldOf(t, snapshotYAML, events...)
			whole, anew := applied(1, 8), applied(5, 8)
			if work == "verify" {
				w.build(t)
				w.change(t, "a", "$set", one("applied", anew))
			}
			requests := 0
			w.hook = func() error {
				if requests++; requests == at {
					w.archive(t, "a", 3)
				} else if requests == at+1 {
					w.archive(t, "a", 5)
				}
				return nil
			}
			switch work {
			case "build":
				w.build(t)
			case "sweep":
				w.sweep(t)
			default:
				found, _ := w.verify(t, w.verifiers(), Params{})
				if f, ok := found["a"]; ok && f.Kind != Different {
					t.Errorf("%s, archived at request %d: found %+v", work, at, f)
				}
				continue
			}
			archived := requests > at
			w.hook = func() error { return nil }
			if len(w.parked) > 0 {
				// The first events were gone and the others not yet. It resumes.
				clear(w.parked)
				w.sweep(t)
			}
			if got := w.models(t)["a"]; got != anew && got != whole || len(w.parked) > 0 {
				t.Errorf("%s, archived %v at request %d: %q, parked %v", work, archived, at, got, w.parked)
			}
		}
	}
}
