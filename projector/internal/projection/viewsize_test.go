package projection_test

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// quick is far more than linear work needs, and far less than quadratic work.
const quick = 20 * time.Second

// inTime begins work. end fails the test if it took more processor time than quick.
func inTime(t *testing.T) (end func()) {
	t.Helper()
	runtime.LockOSThread()
	began := processorTime(t, syscall.RUSAGE_THREAD)
	return func() {
		t.Helper()
		defer runtime.UnlockOSThread()
		if took := processorTime(t, syscall.RUSAGE_THREAD) - began; took > quick {
			t.Errorf("it took %v", took)
		}
	}
}

func setView(t *testing.T) model.View {
	t.Helper()
	return totalsOf(t, "{values: {set: part.values}}").View()
}

// setPart is a part that adds values to the set of documents.
func setPart(values bson.A, keys ...string) bson.Raw {
	documents := bson.A{}
	for _, key := range keys {
		documents = append(documents, bson.M{model.FieldKey: key, "totals": bson.M{"values": values}})
	}
	return testkit.Raw(bson.M{model.FieldDocuments: documents})
}

func sortedTexts(n int) bson.A {
	values := bson.A{}
	for i := range n {
		values = append(values, fmt.Sprintf("%06d", i))
	}
	return values
}

// TestLargeSetIsMadeOfItsPartsInTime makes a set that was quadratic work: a value that goes
// from it did so in each attempt.
func TestLargeSetIsMadeOfItsPartsInTime(t *testing.T) {
	t.Parallel()
	const n = 20_000
	end := inTime(t)
	fold, all := setView(t).Begin("k"), sortedTexts(n)
	for i := range n {
		// Each value comes twice, and not in its order.
		for range 2 {
			if err := fold.Add(model.Part{AggregateID: fmt.Sprint(i), Document: setPart(bson.A{all[i*7919%n]}, "k")}); err != nil {
				t.Fatal(err)
			}
		}
	}
	document, err := fold.Document()
	if err != nil {
		t.Fatal(err)
	}
	if got := document.Lookup("values"); !got.Equal(testkit.Raw(bson.M{"values": all}).Lookup("values")) {
		t.Error("the set does not have each value once, sorted")
	}
	end()
}

// TestLargeListInASetChangesInTime adds one value to a list of many.
func TestLargeListInASetChangesInTime(t *testing.T) {
	t.Parallel()
	const n = 60_000
	v, all := setView(t), sortedTexts(n)
	before, after := setPart(all[:n-1], "k"), setPart(all, "k")
	document, _, err := v.Merge("k", nil, []model.PartChange{{AggregateID: "a", After: before}})
	if err != nil {
		t.Fatal(err)
	}
	end := inTime(t)
	document, ok, err := v.Merge("k", document, []model.PartChange{{AggregateID: "a", Before: before, After: after}})
	if err != nil || !ok {
		t.Fatalf("merge: %t, %v", ok, err)
	}
	end()
	whole, err := model.Whole(v, "k", []model.Part{{AggregateID: "a", Document: after}})
	if err != nil || !slices.Equal(document, whole) {
		t.Errorf("the document is not that of its part (%v)", err)
	}
}

// TestLongKeysOfOnePartAreListedInTime lists as many keys as a part can have, with the same
// beginning.
func TestLongKeysOfOnePartAreListedInTime(t *testing.T) {
	t.Parallel()
	const n = 10_000
	keys := make([]string, n)
	for i := range keys {
		keys[i] = strings.Repeat("k", 1018) + fmt.Sprintf("%06d", i)
	}
	part := setPart(nil, append(keys, keys[0])...)
	end := inTime(t)
	for range 20 {
		if got := setView(t).Keys(part); !slices.Equal(got, keys) {
			t.Fatal("the keys are not those of the part")
		}
	}
	end()
}

// TestFieldsOfManyPartsDoNotStayInMemory makes a document of parts that all give it the same
// fields. The document has those of the first one only.
func TestFieldsOfManyPartsDoNotStayInMemory(t *testing.T) {
	p := projectiontest.One(t, `
views:
  - name: v
    collection: v
    from: [{aggregateType: A, key: "'k'", keep: fields, on: {E: {set: {text: payload.text}}}}]
`)
	part := func(i int) model.Part {
		raw := testkit.Raw(bson.D{
			{Key: "text", Value: strings.Repeat(fmt.Sprint(i%10), 64<<10)}, {Key: "number", Value: int64(i)}, {Key: fmt.Sprint("own", i%7), Value: int64(i)},
			{Key: model.FieldDocuments, Value: bson.A{bson.M{model.FieldKey: "k", "fields": true}}},
		})
		return model.Part{AggregateID: fmt.Sprintf("%04d", i), Document: raw}
	}
	inUse := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const n = 1500
	fold, before := p.View().Begin("k"), inUse()
	for i := range n {
		if err := fold.Add(part((i + n/2) % n)); err != nil {
			t.Fatal(err)
		}
	}
	if grown := inUse() - before; grown > 16<<20 {
		t.Errorf("the fold of %d parts needs %d MiB", n, grown>>20)
	}
	document, err := fold.Document()
	if err != nil {
		t.Fatal(err)
	}
	want := bson.D{{Key: "parts", Value: int64(n)}, {Key: "text", Value: strings.Repeat("0", 64<<10)}, {Key: "number", Value: int64(0)}}
	for i := range int64(7) {
		want = append(want, bson.E{Key: fmt.Sprint("own", i), Value: i})
	}
	if whole, err := bson.Marshal(want); err != nil || !bytes.Equal(document, whole) {
		t.Errorf("the document has not the fields of the first parts: %v, %v", document.Lookup("number"), err)
	}
}

// TestSplitPartsGiveTheSameDocuments checks that a document does not show whether its parts were
// split.
func TestSplitPartsGiveTheSameDocuments(t *testing.T) {
	t.Parallel()
	projections := shop(t)
	rapid.Check(t, func(t *rapid.T) {
		for _, p := range projections {
			v, l := p.View(), newPipeline(p)
			for _, events := range history(t) {
				if !p.Concerns(events[0]) {
					continue
				}
				part := l.fold(t, events).After
				split := v.Split(part)
				if keys := v.Keys(part); len(keys) != len(split) {
					t.Fatalf("%d documents of %d", len(split), len(keys))
				}
				for key, share := range split {
					a, err := model.Whole(v, key, []model.Part{{AggregateID: "a", Document: part}})
					if err != nil {
						t.Fatal(err)
					}
					b, err := model.Whole(v, key, []model.Part{{AggregateID: "a", Document: share}})
					if err != nil || !bytes.Equal(a, b) {
						t.Fatalf("%s of the part is\n%s\nand of its share\n%s, %v", key, a, b, err)
					}
				}
			}
		}
	})
}

// TestFullness checks how near documents are to the limits of what they show, and that a document
// beyond them is refused.
func TestFullness(t *testing.T) {
	t.Parallel()
	embedded, totals := shop(t)[0].View(), setView(t)
	for name, test := range map[string]struct {
		view            model.View
		parts, id, rest int // the number of parts, and the sizes of their ids and of the rest of them
		least, most     float64
	}{
		"900 of 1,000 parts":       {embedded, 900, 3, 10, 0.9, 0.9},
		"3,600 KiB of 4 MiB":       {embedded, 36, 2, 100 << 10, 0.87, 0.89},
		"3,600 KiB of ids":         {embedded, 450, 8 << 10, 10, 0.87, 0.89},
		"only totals":              {totals, 100, 3, 100 << 10, 0, 0.01},
		"more than 1,000 parts":    {embedded, 1001, 4, 10, 0, 0},
		"more than 4 MiB":          {embedded, 41, 2, 100 << 10, 0, 0},
		"more than 4 MiB with ids": {embedded, 520, 8 << 10, 10, 0, 0},
	} {
		var parts []model.Part
		for i := range test.parts {
			text := strings.Repeat("x", test.rest)
			part := testkit.Raw(bson.M{"text": text, model.FieldDocuments: bson.A{bson.M{model.FieldKey: "k", "as": "orders", "totals": bson.M{"values": text + fmt.Sprint(i)}}}})
			parts = append(parts, model.Part{AggregateID: fmt.Sprintf("%0*d", test.id, i), Document: part})
		}
		document, err := model.Whole(test.view, "k", parts)
		if test.most == 0 {
			if err == nil || !strings.Contains(err.Error(), "leave out as") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if f := test.view.Fullness(document); err != nil || f < test.least || f > test.most {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
}
