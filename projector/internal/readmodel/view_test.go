package readmodel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// sums is a view, written by hand. Its documents have the sum and the maximum of their
// contributions, and the notes of their parts.
type sums struct{}

// sumsLimit is the sum that a document cannot have.
const sumsLimit = 1_000_000

var errSum = errors.New("the sum is too high")

// testPart is a part of the view sums.
type testPart struct {
	Note      string       `bson:"note"`
	Documents []testAmount `bson:"documents"`
}

type testAmount struct {
	Key   string `bson:"key"`
	Cents int64  `bson:"cents"`
}

// testSums is a document without the engine's fields.
type testSums struct {
	Parts int64  `bson:"parts"`
	Sum   int64  `bson:"sum"`
	Max   int64  `bson:"max"`
	Notes bson.D `bson:"notes"`
}

// partWith is a part that contributes so many cents to each document.
func partWith(note string, amounts ...testAmount) bson.Raw {
	return testkit.Raw(testPart{note, append([]testAmount{}, amounts...)})
}

// amountIn is the amount that a part contributes to a document.
func amountIn(part bson.Raw, key string) (p testPart, cents int64, ok bool) {
	if part == nil {
		return p, 0, false
	}
	if err := bson.Unmarshal(part, &p); err != nil {
		panic(err)
	}
	i := slices.IndexFunc(p.Documents, func(a testAmount) bool { return a.Key == key })
	if i < 0 {
		return p, 0, false
	}
	return p, p.Documents[i].Cents, true
}

func (sums) Keys(part bson.Raw) (keys []string) {
	p, _, _ := amountIn(part, "")
	for _, a := range p.Documents {
		keys = append(keys, a.Key)
	}
	return keys
}

func (sums) Split(part bson.Raw) map[string]bson.Raw {
	split := make(map[string]bson.Raw)
	p, _, _ := amountIn(part, "")
	for _, a := range p.Documents {
		split[a.Key] = partWith(p.Note, a)
	}
	return split
}

func (sums) Merge(key string, document bson.Raw, changes []model.PartChange) (bson.Raw, bool, error) {
	var s testSums
	if document != nil {
		if err := bson.Unmarshal(document, &s); err != nil {
			return nil, false, err
		}
	}
	highest := s.Max
	for _, c := range changes {
		if _, cents, ok := amountIn(c.Before, key); ok {
			if cents == highest {
				return nil, false, nil // it may have been the only maximum
			}
			s.remove(c.AggregateID, cents)
		}
	}
	for _, c := range changes {
		if p, cents, ok := amountIn(c.After, key); ok {
			s.add(c.AggregateID, p.Note, cents)
		}
	}
	next, err := s.own()
	return next, true, err
}

// sumsFullness is the number of parts at which a document is full.
const sumsFullness = 10

func (sums) Fullness(document bson.Raw) float64 {
	parts, _ := document.Lookup(model.FieldParts).Int64OK()
	return float64(parts) / sumsFullness
}

func (s sums) Begin(key string) model.ViewFold { return &testFold{key: key, whole: s.whole} }

// testFold collects all parts of a document.
type testFold struct {
	key   string
	whole func(key string, parts []model.Part) (bson.Raw, error)
	parts []model.Part
}

func (f *testFold) Add(p model.Part) error {
	f.parts = append(f.parts, p)
	return nil
}

func (f *testFold) Document() (bson.Raw, error) { return f.whole(f.key, f.parts) }

func (sums) whole(key string, parts []model.Part) (bson.Raw, error) {
	var s testSums
	for _, part := range parts {
		if p, cents, ok := amountIn(part.Document, key); ok {
			s.add(part.AggregateID, p.Note, cents)
		}
	}
	return s.own()
}

func (s *testSums) remove(aggregateID string, cents int64) {
	s.Parts--
	s.Sum -= cents
	s.Notes = slices.DeleteFunc(s.Notes, func(e bson.E) bool { return e.Key == aggregateID })
}

func (s *testSums) add(aggregateID, note string, cents int64) {
	s.Parts++
	s.Sum += cents
	s.Max = max(s.Max, cents)
	at, _ := slices.BinarySearchFunc(s.Notes, aggregateID, func(e bson.E, id string) int { return strings.Compare(e.Key, id) })
	s.Notes = slices.Insert(s.Notes, at, bson.E{Key: aggregateID, Value: note})
}

func (s *testSums) own() (bson.Raw, error) {
	switch {
	case len(s.Notes) == 0:
		return nil, nil
	case s.Sum >= sumsLimit:
		return nil, errSum
	}
	return testkit.Raw(s), nil
}

// viewUnit is a unit of the view sums.
func viewUnit(aggregate string) model.Unit {
	return model.Unit{Projection: "sums", Collection: "sums", AggregateID: aggregate, Parts: true}
}

// partWrite writes a part over a loaded state.
func partWrite(u model.Unit, state model.State, to int64, part bson.Raw) model.Write {
	return model.Write{Unit: u, Kind: model.Update, From: state.Watermark, UpdatedAt: state.UpdatedAt, To: to, Document: part, View: sums{}}
}

// state loads a unit.
func (s testStore) state(t *testing.T, u model.Unit) model.State {
	t.Helper()
	states, err := s.Load(t.Context(), []model.Unit{u})
	if err != nil || states[0].Err != nil || states[0].Unavailable != nil {
		t.Fatal(states, err)
	}
	s.Release(states)
	return states[0]
}

// put writes a part over the stored one.
func (s testStore) put(t *testing.T, u model.Unit, to int64, part bson.Raw) {
	t.Helper()
	s.apply(t, model.Applied, partWrite(u, s.state(t, u), to, part))
}

// viewNow are the parts of a generation of a view, and all documents of its collection, at
// one moment.
type viewNow struct {
	parts     map[string]bson.Raw
	documents map[string]bson.Raw
}

func readView(ctx context.Context, db database, u model.Unit) (viewNow, error) {
	now := viewNow{make(map[string]bson.Raw), make(map[string]bson.Raw)}
	err := db.transaction(ctx, func(ctx context.Context) error {
		records, err := db.find(ctx, watermarksCollection, build(0).string("_id.projection", u.Projection).int("_id.generation", u.Number()).raw(), nil, 1000)
		if err != nil {
			return err
		}
		for _, record := range records {
			now.parts[sideKeyIn(record).aggregateID] = record
		}
		documents, err := db.find(ctx, u.Collection, build(0).raw(), nil, 1000)
		for _, document := range documents {
			now.documents[document.Lookup(fieldID).StringValue()] = document
		}
		return err
	})
	return now, err
}

// check compares each document with Whole of its parts, byte for byte except for
// lastUpdatedAt.
func (now viewNow) check(u model.Unit) error {
	parts := make(map[string][]model.Part)
	for id, record := range now.parts {
		part := stateOfRecord(record).Document
		for _, key := range (sums{}).Keys(part) {
			parts[key] = append(parts[key], model.Part{AggregateID: id, Document: part})
		}
	}
	want := make(map[string]bson.Raw)
	for key, of := range parts {
		own, err := sums{}.whole(key, of)
		if err != nil {
			return err
		}
		at := now.documents[key].Lookup(model.FieldLastUpdatedAt)
		want[key] = build(0).string("_id", key).value("lastUpdatedAt", at).int("lastGeneration", u.Number()).elements(own).raw()
	}
	if !maps.EqualFunc(want, now.documents, func(a, b bson.Raw) bool { return bytes.Equal(a, b) }) {
		return fmt.Errorf("the documents are %v\nwant %v", now.documents, want)
	}
	return nil
}

// expectWhole checks that the documents are as their parts make them.
func expectWhole(t *testing.T, db database, u model.Unit) viewNow {
	t.Helper()
	now, err := readView(t.Context(), db, u)
	if err == nil {
		err = now.check(u)
	}
	if err != nil {
		t.Error(err)
	}
	return now
}

// expectDocument checks a document without the number of its parts, which is the first field;
// "" for none.
func (now viewNow) expectDocument(t *testing.T, key, want string) {
	t.Helper()
	got := ""
	if document := now.documents[key]; document != nil {
		text, err := bson.MarshalExtJSON(ownFields(document), false, false)
		if err != nil {
			t.Fatal(err)
		}
		_, got, _ = strings.Cut(string(text), ",")
		got = "{" + got
	}
	if got != want {
		t.Errorf("document %s is %s, want %s", key, got, want)
	}
}
