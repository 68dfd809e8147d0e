package projection_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// drawProjection draws a projection with random handlers for the event types A to D. They
// share a few fields, so that operations apply to values of every kind.
func drawProjection(t *rapid.T) *projection.Projection {
	var b strings.Builder
	b.WriteString("projections:\n  - name: p\n    collection: c\n    on:\n")
	paths := []string{"a", "b", "c.x", "c.y", "d.e.f", "list"}
	values := []string{"payload.v", "payload.w", "eventId", "'text'", "[payload.v, 2]", "{'k': payload.v}", "state.?a.orValue(1)", "payload.?none", "state.?list.orValue([]) + [payload.v]"}
	for _, kind := range []string{"A", "B", "C"} {
		fmt.Fprintf(&b, "      %s:\n", kind)
		free := rapid.Permutation(paths).Draw(t, "paths")
		operators := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"set", "unset", "inc", "push", "pull", "addToSet", "min", "max"}), 1, 4, rapid.ID).Draw(t, "operators")
		for i, operator := range operators {
			value := rapid.SampledFrom(values).Draw(t, "value")
			switch operator {
			case "unset":
				fmt.Fprintf(&b, "        unset: %s\n", free[i])
				continue
			case "inc":
				value = "payload.v"
			}
			fmt.Fprintf(&b, "        %s: {%s: %q}\n", operator, free[i], value)
		}
	}
	b.WriteString("      D: {when: \"payload.v != 2\", delete: true}\n")
	projections, err := projection.Parse("random.yaml", []byte(b.String()))
	if err != nil {
		t.Fatalf("%s\n%v", b.String(), err)
	}
	return projections[0]
}

// TestUpdateLeadsToState checks that the update turns the old document into the state
// after the fold, and contains no unchanged field.
func TestUpdateLeadsToState(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, before, events := drawProjection(t), projectiontest.DrawDocument(t), projectiontest.DrawEvents(t)
		f := p.Fold(before, events)
		want := projectiontest.Content(f.State())
		switch f.Kind {
		case 0:
			if f.Err == nil || f.Folded != 0 {
				t.Fatalf("nothing to write, yet %+v", f)
			}
		case model.Create:
			if before != nil || !reflect.DeepEqual(projectiontest.Content(f.Document), want) {
				t.Fatalf("creates %s, state %v", f.Document, want)
			}
		case model.Update:
			old := projectiontest.Content(before)
			got := projectiontest.Updated(t, old, f.Update)
			if before == nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%s on %s gives %v, not %v", f.Update, before, got, want)
			}
			for name := range changed(f.Update) {
				name, _, _ = strings.Cut(name, ".")
				if reflect.DeepEqual(old[name], want[name]) {
					t.Fatalf("%s writes %s, which stays %v", f.Update, name, old[name])
				}
			}
		case model.Delete:
			if before == nil || f.State() != nil {
				t.Fatalf("deletes %s, state %v", before, want)
			}
		default:
			if before != nil || f.State() != nil {
				t.Fatalf("kind %d, before %s, state %v", f.Kind, before, want)
			}
		}
	})
}

// TestBatchingChangesNothing checks that any division into batches gives the same result,
// and fails at the same event.
func TestBatchingChangesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, before, events := drawProjection(t), projectiontest.DrawDocument(t), projectiontest.DrawEvents(t)
		whole := p.Fold(before, events)
		document := before
		applied := []bool{}
		var failure *projection.Error
		for rest := events; len(rest) > 0 && failure == nil; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "batch")
			f := p.Fold(document, rest[:n])
			document, applied, failure = f.State(), append(applied, f.Applied...), f.Err
			rest = rest[n:]
		}
		if !reflect.DeepEqual(projectiontest.Content(whole.State()), projectiontest.Content(document)) || !slices.Equal(whole.Applied, applied) {
			t.Fatalf("at once %s %v, in batches %s %v", whole.State(), whole.Applied, document, applied)
		}
		if (whole.Err == nil) != (failure == nil) || failure != nil && failure.Error() != whole.Err.Error() {
			t.Fatalf("at once %v, in batches %v", whole.Err, failure)
		}
	})
}

// changed returns the fields that an update names.
func changed(update bson.Raw) map[string]bool {
	names := make(map[string]bool)
	for _, fields := range projectiontest.Content(update) {
		for name := range projectiontest.Content(fields.Document()) {
			names[name] = true
		}
	}
	return names
}

// foldInBatches folds events in batches of any sizes.
func foldInBatches(t *rapid.T, p *projection.Projection, events []*event.Event) (document projection.State) {
	for len(events) > 0 {
		n := rapid.IntRange(1, len(events)).Draw(t, "batch")
		f := p.Fold(document, events[:n])
		if f.Err != nil {
			t.Fatal(f.Err)
		}
		document, events = f.State(), events[n:]
	}
	return document
}
