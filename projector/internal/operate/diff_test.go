package operate

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

const (
	diffOld = `
projections:
  - {name: gone, collection: gone, on: {Placed: {set: {a: "1"}}}}
  - {name: same, collection: same, on: {Placed: {set: {a: "1"}}}}
  - name: orders
    collection: orders
    on:
      Placed: {set: {customer: payload.customer}}
      Added: {inc: {items: payload.quantity}, push: {lines: payload.sku}}
      Closed: {set: {rate: 10 / payload.rate}}
      Removed: {delete: true}
`
	diffNew = `
projections:
  - {name: same, collection: same, on: {Placed: {set: {a: "1"}}}}
  - {name: fresh, collection: fresh, on: {Added: {set: {sku: payload.sku}}}}
  - name: orders
    collection: orders
    on:
      Placed: {set: {customer: payload.customer}}
      Added: {inc: {items: payload.quantity + payload.extra}, push: {lines: payload.sku}}
      Closed: {unset: rate}
      Noted: {set: {note: payload.note}}
`
)

// diffEvents has aggregates for each kind of difference.
func diffEvents(t *testing.T) string {
	t.Helper()
	placed := func(id string) string { return orderEvent(id, 1, "Placed", `{"customer":"Ada"}`) }
	return writeFile(t, "events.ndjson", strings.Join([]string{
		placed("a"), placed("b"), placed("c"), placed("d"), placed("e"), placed("f"),
		orderEvent("a", 2, "Added", `{"quantity":1,"extra":1,"sku":"s"}`),
		orderEvent("b", 2, "Added", `{"quantity":1,"extra":0,"sku":"s"}`),
		orderEvent("c", 2, "Added", `{"quantity":1,"sku":"s"}`),
		orderEvent("d", 2, "Closed", `{"rate":0}`),
		orderEvent("e", 2, "Removed", `{}`),
		orderEvent("f", 2, "Added", `{"quantity":1,"extra":1,"sku":"s"}`),
		orderEvent("f", 3, "Added", `{"quantity":1,"extra":2,"sku":"s"}`),
		orderEvent("g", 1, "Noted", `{"note":"n"}`),
		placed("beyond the sample"),
	}, ""))
}

// TestDiffOfFiles compares what two files make of the same aggregates.
func TestDiffOfFiles(t *testing.T) {
	t.Parallel()
	before, after, events := writeFile(t, "old.yaml", diffOld), writeFile(t, "new.yaml", diffNew), diffEvents(t)
	stdout, stderr, err := runLine(t, map[string]string{"PENSTOCK_REFOLD_RATE": "2", "PENSTOCK_VERIFY_SAMPLE": "0.5"}, "diff", before, after, "--from="+events, "--sample=7")
	if !errors.Is(err, cli.ErrFindings) {
		t.Fatalf("%v\n%s%s", err, stdout, stderr)
	}
	_, got, _ := strings.Cut(stdout, "orders: changed, definition ")
	_, got, _ = strings.Cut(got, "\n")
	const want = `  - on Added inc items: payload.quantity
  + on Added inc items: payload.quantity+payload.extra
  - on Closed set rate: 10/payload.rate
  + on Closed unset: [rate]
  + on Noted set note: payload.note
  - on Removed delete: true
  of 7 sampled aggregates that concern it, 3 would have a different document, 2 would get a document, 0 would lose their document
    items differs in 3, such as a: 1 -> 2
    lines differs in 1, such as c: ["s"] -> absent
  1 that are parked by the present definition would get further
  1 WOULD BE PARKED that are not now, or earlier than now:
    1 for expression, such as c at event 2 (Added): inc items: payload.quantity + payload.extra: no such key: extra (if a field can be absent, read it as .?field, with .orValue(…) for a default)
  rollout: rebuild: a new generation is built beside the live one

same: unchanged
  rollout: nothing

sample: 7 aggregates with 14 events, of which 0 break the event contract
a rollout builds 2 projections, and reads about 45 events for the build and the verification: about 23s with one pod at PENSTOCK_REFOLD_RATE=2
`
	if got != want {
		t.Errorf("printed\n%s\nwant\n%s", got, want)
	}
	// The lines of an aggregate need no order. The sample has the same aggregates, because all
	// but the last events are of them.
	text, err := os.ReadFile(events)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(strings.TrimSpace(string(text)), "\n")
	last := len(lines) - 1
	slices.Reverse(lines[:last])
	reversed := writeFile(t, "reversed.ndjson", strings.Join(lines, ""))
	if again, stderr, err := runLine(t, map[string]string{"PENSTOCK_REFOLD_RATE": "2", "PENSTOCK_VERIFY_SAMPLE": "0.5"}, "diff", before, after, "--from="+reversed, "--sample=7"); !errors.Is(err, cli.ErrFindings) || again != stdout {
		t.Errorf("with the lines in another order: %v\n%s%s", err, again, stderr)
	}
	for _, text := range []string{
		"fresh: new, definition ", "  7 of the sampled aggregates concern it\n", "  rollout: backfill: ",
		"gone: removed\n  rollout: retire: ",
	} {
		if !strings.Contains(stdout, text) {
			t.Errorf("%q is not in\n%s", text, stdout)
		}
	}
	if stdout, stderr, err = runLine(t, nil, "diff", before, before, "--from="+events); err != nil || !strings.Contains(stdout, "a rollout builds nothing") {
		t.Errorf("the same file: %v\n%s%s", err, stdout, stderr)
	}
	// A changed definition with the same results is no finding, although it is built again.
	refactored := writeFile(t, "refactored.yaml", strings.Replace(diffOld, "inc: {items: payload.quantity}", "inc: {items: payload.quantity * 1}", 1))
	if stdout, stderr, err = runLine(t, nil, "diff", before, refactored, "--from="+events); err != nil || !strings.Contains(stdout, "a rollout builds 1 projection,") {
		t.Errorf("a definition with the same results: %v\n%s%s", err, stdout, stderr)
	}
}

// TestDiffRefuses checks that each error says what to do.
func TestDiffRefuses(t *testing.T) {
	t.Parallel()
	before, broken := writeFile(t, "old.yaml", diffOld), writeFile(t, "new.yaml", strings.Replace(diffNew, "payload.note", "nobody", 1))
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"no file", nil, "<file>"},
		{"three files", []string{before, before, before, "--from=x"}, "<file> names 3 files: name the new one, or the old one and the new one"},
		{"no sample", []string{before, before, "--from=x", "--sample=0"}, "--sample is 0: use 1 to 100000"},
		{"broken file", []string{before, broken, "--from=x"}, "new.yaml:11:27: projection orders: Noted: set note: undeclared reference to 'nobody'"},
		{"no store", []string{before, before}, "MONGODB_URI is not set"},
		{"no catalog", []string{before, "--from=x"}, "MONGODB_URI is not set"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, err := runLine(t, nil, append([]string{"diff"}, test.args...)...)
			if !errors.Is(err, cli.ErrUsage) || !strings.Contains(stderr, test.want) || stdout != "" {
				t.Errorf("the error is %v\n%s%s", err, stdout, stderr)
			}
		})
	}
}

// TestDiffSaysWhatARolloutStarts compares the forecast with the rules of package
// generation.
func TestDiffSaysWhatARolloutStarts(t *testing.T) {
	t.Parallel()
	parse := func(text string) *projection.Projection {
		projections := projectiontest.All(t, "projections: [{name: p, collection: c, on: {E: {set: {a: \""+text+"\"}}}}]")
		return projections[0]
	}
	one, two, three := parse("1"), parse("2"), parse("3")
	entry := func(live, building *projection.Projection, history ...*projection.Projection) *catalog.Entry {
		e := &catalog.Entry{Name: "p", Generations: 4}
		if live != nil {
			e.Live = &catalog.Live{Generation: 1, Definition: catalog.Declare(live)[0].Definition}
		}
		if building != nil {
			e.Building = &catalog.Build{Generation: 4, Definition: catalog.Declare(building)[0].Definition, State: catalog.CatchingUp}
		}
		for _, p := range history {
			e.History = append(e.History, catalog.Record{Hash: p.Hash()})
		}
		return e
	}
	retired := entry(one, nil)
	retired.RetiredAt = &time.Time{}
	cancelled := entry(one, nil)
	cancelled.GivenUp = &catalog.GivenUp{Hash: two.Hash(), Who: "ada"}
	for _, test := range []struct {
		name   string
		entry  *catalog.Entry
		after  *projection.Projection
		want   string
		builds bool
	}{
		{"not in the catalog", nil, one, "backfill: ", true},
		{"without data", entry(nil, nil), one, "backfill: ", true},
		{"the same", entry(one, nil), one, "nothing", false},
		{"being built", entry(one, two), two, "nothing: generation 4 has this definition and is catching up", false},
		{"back to the live one", entry(one, two), one, "cancel: generation 4 (another definition, catching up) is given up", false},
		{"changed", entry(one, nil), two, "rebuild: a new generation is built beside the live one", true},
		{"changed during a build", entry(one, two), three, "rebuild: a new generation is built instead of generation 4, which is catching up", true},
		{"rolled back", entry(two, nil, one), one, "rebuild: a new generation is built beside the live one; the projection has had this definition before, so this begins when no pod declares the present one any more", true},
		{"retired", retired, one, "rebuild: the projection was retired at ", true},
		{"cancelled before", cancelled, two, "was cancelled by ada; \"projector projections rebuild\" builds it", false},
		{"removed", entry(one, nil), nil, "retire: nothing writes the projection any more; ", false},
	} {
		before := one
		if test.entry == nil || test.entry.Live == nil {
			before = nil
		}
		text, builds := newComparison(before, test.after).rolloutOver(test.entry)
		if !strings.HasPrefix(text, test.want) && !strings.HasSuffix(text, test.want) || builds != test.builds {
			t.Errorf("%s: %q, builds %t, want %q, %t", test.name, text, builds, test.want, test.builds)
		}
		if test.after == nil || test.entry == nil {
			continue
		}
		// Once no pod declares the present definition, the catalog changes as forecast.
		changes := catalog.Decide(catalog.View{
			Entries: map[string]*catalog.Entry{"p": test.entry}, Declares: catalog.Declare(test.after),
		}, catalog.Author{})
		started := len(changes) == 1 && changes[0].New.Building != nil && changes[0].New.Building.Hash == test.after.Hash()
		if started != builds {
			t.Errorf("%s: a build starts: %t, forecast: %t", test.name, started, builds)
		}
	}
}

// A file does not remove projections in Go, nor those of another release.
func TestDiffLeavesOutWhatNoFileOfTheReleaseDeclares(t *testing.T) {
	t.Parallel()
	e, s, _ := emptyState(t)
	e.Config.ServiceBus.Subscription = "projector"
	own := e.Config.Pipeline().String()
	declared := func(name string) *projection.Projection {
		return projectiontest.All(t, "projections: [{name: "+name+", collection: c, on: {E: {set: {a: \"1\"}}}}]")[0]
	}
	for name, pipeline := range map[string]string{"removed": own, "code": own, "others": "other" + own} {
		entry := catalog.Create(pipeline, catalog.Declare(declared(name))[0], catalog.Author{})
		entry.Live.InCode = name == "code"
		if _, err := s.catalog.Write(t.Context(), nil, entry); err != nil {
			t.Fatal(err)
		}
	}
	found, err := e.compareWithCatalog(t.Context(), s, nil)
	if err != nil || len(found) != 1 || found[0].Kind != removedKind {
		t.Errorf("%+v, %v", found, err)
	}
	found, err = e.compareWithCatalog(t.Context(), s, []*projection.Projection{declared("others")})
	if err != nil || len(found) != 2 || found[0].differs() || found[1].Kind != removedKind {
		t.Errorf("declared: %+v, %v", found, err)
	}
}

// TestSampleSpreadsOverTheStore checks that a sample has the requested number of whole
// aggregates, from all parts of the event store.
func TestSampleSpreadsOverTheStore(t *testing.T) {
	t.Parallel()
	events := server.Database(t).Collection("events")
	mongotest.IndexEvents(t, events)
	var documents []any
	for i := range 500 {
		// The first aggregates have most of the events.
		for id := 1; id <= 1+40/(i+1); id++ {
			documents = append(documents, bson.D{{Key: "aggregateId", Value: fmt.Sprintf("a-%03d", i)}, {Key: "eventId", Value: id}, {Key: "eventType", Value: "E"}})
		}
	}
	if _, err := events.InsertMany(t.Context(), documents); err != nil {
		t.Fatal(err)
	}
	reader := eventstore.NewReader(events, event.DefaultFields(), zerolog.Nop())
	projections := projectiontest.All(t, `projections: [{name: p, collection: c, on: {E: {inc: {n: "1"}, set: {last: aggregateId}}}}]`)
	for _, limit := range []int{1, 3, 100, 499, 500, 600} {
		c := newComparison(nil, projections[0])
		s := sampler{comparisons: []*comparison{c}, firstEvent: 1, max: limit, open: map[string][]versus{}}
		total, err := s.fromStore(t.Context(), reader)
		if want := int64(min(limit, 500)); err != nil || s.aggregates != want || c.Aggregates != want || total != int64(len(documents)) || c.Parks > 0 {
			t.Errorf("a sample of %d has %d aggregates, %d parked, of %d events; %v", limit, s.aggregates, c.Parks, total, err)
		}
	}
	// A sample of a hundred reaches the last quarter of the store.
	again := projectiontest.All(t, `projections: [{name: p, collection: c, on: {E: {set: {last: "aggregateId > 'a-450' ? 'late' : 'early'"}}}}]`)
	c := newComparison(projections[0], again[0])
	s := sampler{comparisons: []*comparison{c}, firstEvent: 1, max: 100, open: map[string][]versus{}}
	if _, err := s.fromStore(t.Context(), reader); err != nil {
		t.Fatal(err)
	}
	c.conclude()
	text, err := json.Marshal(c.Fields)
	if err != nil || c.Differ != 100 || !strings.Contains(string(text), `"path":"last","aggregates":100`) {
		t.Errorf("%d of 100 differ in %s; %v", c.Differ, text, err)
	}
}
