package store_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsongen"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/oplog"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/query"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

// content is everything that clients can see of a store: the collections with their
// indexes and ordered documents, and the log.
type content struct {
	collections []string
	log         []*oplog.Entry
}

func contentOf(t fataler, s *store.Store) content {
	t.Helper()
	var c content
	_ = s.View(nil, func(v *store.Viewer) error {
		for _, db := range v.Databases() {
			for _, name := range v.Names(db) {
				coll := v.Collection(store.Namespace{DB: db, Coll: name})
				text := coll.NS.String() + string(coll.UUID[:])
				for _, x := range coll.Indexes() {
					text += bsonraw.FormatDocument(x.Spec(coll.NS))
				}
				c.collections = append(c.collections, text)
			}
		}
		return nil
	})
	for i, text := range c.collections {
		rows, err := s.Open(context.Background(), nil, store.Query{NS: named(text), Filter: matcher(t, bson.D{})})
		if err != nil {
			t.Fatal(err)
		}
		docs, err := rows.All(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range docs {
			c.collections[i] += bsonraw.FormatDocument(doc)
		}
	}
	c.log = s.Log().All()
	return c
}

func named(text string) store.Namespace {
	return store.Namespace{DB: text[:2], Coll: text[3:4]}
}

func (c content) equal(other content) bool {
	return slices.Equal(c.collections, other.collections) && slices.EqualFunc(c.log, other.log, func(a, b *oplog.Entry) bool {
		return a.TS == b.TS && a.Index == b.Index && a.Kind == b.Kind && a.DB == b.DB && a.Coll == b.Coll && a.UUID == b.UUID &&
			a.First == b.First && a.ToColl == b.ToColl && a.Wall == b.Wall && a.Message == b.Message && (a.Txn == nil) == (b.Txn == nil) &&
			bytes.Equal(a.Doc, b.Doc) && bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Description, b.Description)
	})
}

func openStore(t fataler, dir string) *store.Store {
	t.Helper()
	s, err := store.Open(oplog.New(oplog.Limits{Entries: 60}), time.Now, dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// writing makes random changes to the collections c and d.
type writing struct {
	t     *rapid.T
	store *store.Store
	next  int32
}

func (w *writing) namespace() store.Namespace {
	return store.Namespace{DB: "db", Coll: rapid.SampledFrom([]string{"c", "d"}).Draw(w.t, "collection")}
}

func (w *writing) step() {
	ns, tx := w.namespace(), (*store.Tx)(nil)
	inside := rapid.IntRange(0, 3).Draw(w.t, "transaction") == 0
	if inside {
		tx = w.store.Begin()
	}
	kind := rapid.IntRange(0, 11).Draw(w.t, "kind")
	for range rapid.IntRange(1, 3).Draw(w.t, "times") {
		// The test accepts every result of the change.
		_ = w.store.Do(context.Background(), tx, func(sw *store.Writer) error { return w.change(sw, ns, kind, inside) })
	}
	if !inside {
		return
	}
	if rapid.Bool().Draw(w.t, "commit") {
		_ = tx.Commit(&oplog.Transaction{Session: bsonraw.MustMarshal(bson.D{{Key: "id", Value: 1}}), Number: 1})
	} else {
		tx.Abort()
	}
}

func (w *writing) change(sw *store.Writer, ns store.Namespace, kind int, inside bool) error {
	c := sw.Collection(ns)
	if kind < 6 || c == nil {
		w.next++
		doc := append(bson.D{{Key: "_id", Value: w.next}}, bsongen.Document(1, bsongen.Names).Draw(w.t, "doc")...)
		return sw.Insert(ns, bsonraw.MustMarshal(doc))
	}
	found, err := sw.Select(c, matcher(w.t, bson.D{}), []store.KeyPart{{Field: "_id", Path: query.Path{"_id"}, Desc: true}}, store.Hint{}, 1)
	switch {
	case err != nil:
		return err
	case kind < 8 && len(found) > 0:
		id, _ := bsonraw.Lookup(found[0].Doc, "_id")
		doc := bsonraw.NewBuilder(32).Value("_id", id).Int32("x", rapid.Int32().Draw(w.t, "x")).Bytes()
		var description []byte
		if kind == 6 {
			description = bsonraw.MustMarshal(bson.D{{Key: "updatedFields", Value: bson.D{}}})
		}
		return sw.Replace(c, found[0], doc, description)
	case kind == 8 && len(found) > 0:
		return sw.Remove(c, found[0])
	case inside:
		return nil
	case kind == 9:
		_, err := sw.CreateIndexes(c.NS, store.IndexSpec{Name: "a", Pattern: bsonraw.MustMarshal(bson.D{{Key: "a", Value: -1}}), Unique: rapid.Bool().Draw(w.t, "unique")})
		return err
	case kind == 10 && rapid.Bool().Draw(w.t, "drop"):
		_, err := sw.Drop(ns)
		return err
	case kind == 10:
		return sw.DropIndex(c, "a")
	}
	return sw.Rename(ns, w.namespace(), true)
}

// A reopened store has the same content as before its process ended, cleanly or by a
// crash. A second reopening gives the same content again.
func TestStoreSurvivesAReopen(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir := newDir(t, base)
		w := &writing{t: t, store: openStore(t, dir)}
		for range rapid.IntRange(1, 3).Draw(t, "lives") {
			for range rapid.IntRange(0, 30).Draw(t, "steps") {
				w.step()
			}
			want := contentOf(t, w.store)
			if rapid.Bool().Draw(t, "crash") {
				dir = crash(t, base, dir)
			} else if err := w.store.Close(); err != nil {
				t.Fatal(err)
			}
			w.store = openStore(t, dir)
			if got := contentOf(t, w.store); !got.equal(want) {
				t.Fatalf("got\n%q\n%d entries, want\n%q\n%d entries", got.collections, len(got.log), want.collections, len(want.log))
			}
			if last := w.store.Log().Newest(); !w.store.Clock().Next().After(last) {
				t.Fatal("time went back")
			}
		}
		_ = w.store.Close()
	})
}

// A change stream reads the log without the store's lock, so the log must never contain
// an entry that the journal's file lacks.
func TestLogShowsOnlyJournaledEntries(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, dir)
	size := func() int64 {
		file, err := os.Stat(filepath.Join(dir, "journal"))
		if err != nil {
			t.Fatal(err)
		}
		return file.Size()
	}
	before, end := size(), s.Log().End()
	err := s.Do(t.Context(), nil, func(w *store.Writer) error {
		err := w.Insert(store.Namespace{DB: "db", Coll: "c"}, bsonraw.MustMarshal(bson.D{{Key: "_id", Value: 1}}))
		if s.Log().End() > end && size() == before {
			t.Error("the log shows an insert that is not in the journal")
		}
		return err
	})
	if err != nil || s.Log().End() == end || size() == before {
		t.Errorf("after the insert (%v) the log ends at %d, the journal at %d", err, s.Log().End(), size())
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// If a store cannot be opened, it unlocks its directory.
func TestStoreThatCannotBeOpenedUnlocksItsDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := openStore(t, dir).Close(); err != nil {
		t.Fatal(err)
	}
	inTheWay := filepath.Join(dir, "journal.next")
	if err := os.Mkdir(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(oplog.New(oplog.Limits{}), time.Now, dir); err == nil {
		t.Fatal("opened a store that it cannot rewrite")
	}
	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	if err := openStore(t, dir).Close(); err != nil {
		t.Error(err)
	}
}

// crash copies a store's directory as a crash would leave it, with an incomplete last
// write.
func crash(t *rapid.T, base, dir string) string {
	journal, err := os.ReadFile(filepath.Join(dir, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	next := newDir(t, base)
	if err := os.WriteFile(filepath.Join(next, "journal"), append(journal, 100, 0, 0, 0, 1, 2, 3), 0o600); err != nil {
		t.Fatal(err)
	}
	return next
}

func newDir(t *rapid.T, base string) string {
	dir, err := os.MkdirTemp(base, "")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// A failed write to the journal is reported, so that the process can end.
func TestFailedJournalIsReported(t *testing.T) {
	t.Parallel()
	s, err := store.Open(oplog.New(oplog.Limits{}), time.Now, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Failed():
		t.Fatal("the journal has failed before anything was written")
	default:
	}
	if err := s.Close(); err != nil { // makes all later writes to the file fail
		t.Fatal(err)
	}
	insert := func() error {
		return s.Do(t.Context(), nil, func(w *store.Writer) error { return w.Insert(ns, bsonraw.MustMarshal(bson.D{{Key: "_id", Value: 1}})) })
	}
	for range 2 { // the second Do must not see the document of the first
		if err := insert(); err == nil || !strings.Contains(err.Error(), "interrupted at shutdown") {
			t.Errorf("a write without a journal ends with %v", err)
		}
		select {
		case <-s.Failed():
		default:
			t.Error("the failure is not reported")
		}
		if err := s.View(nil, func(*store.Viewer) error { return nil }); err == nil {
			t.Error("View succeeded although the journal has failed")
		}
	}
}
