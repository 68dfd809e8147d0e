package readmodel

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// TestGroupsOfOneProcessDoNotConflict checks that the groups of one writer take turns.
func TestGroupsOfOneProcessDoNotConflict(t *testing.T) {
	t.Parallel()
	db := &faulty{database: newDatabase(t)}
	w := newWriter(db, WriterOptions{})
	w.groups.maxItems, w.groups.maxBusy = 1, 8
	ctx, cancel := context.WithCancel(t.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = w.Run(ctx) })
	defer run.Wait()
	defer cancel()
	var writes []model.Write
	for i := range 40 {
		writes = append(writes, partWrite(viewUnit(fmt.Sprint(i)), model.State{}, 1, partWith("x", to("k", 1))))
	}
	results, err := w.Write(t.Context(), writes)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.Status != model.Applied {
			t.Errorf("%d: %+v", i, r)
		}
	}
	if n := db.begun.Load(); n != 40 {
		t.Errorf("%d transactions for 40 groups", n)
	}
	expectWhole(t, db, viewUnit(""))
}

// maxima is a view whose documents have only the maximum of their contributions.
type maxima struct{ sums }

func (maxima) Merge(key string, document bson.Raw, changes []model.PartChange) (bson.Raw, bool, error) {
	var parts, highest int64
	if document != nil {
		parts, highest = document.Lookup("parts").Int64(), document.Lookup("max").Int64()
	}
	for _, c := range changes {
		if _, cents, ok := amountIn(c.Before, key); ok {
			if cents == highest {
				return nil, false, nil
			}
			parts--
		}
	}
	for _, c := range changes {
		if _, cents, ok := amountIn(c.After, key); ok {
			parts, highest = parts+1, max(highest, cents)
		}
	}
	if parts == 0 {
		return nil, true, nil
	}
	return testkit.Raw(bson.D{{Key: "parts", Value: parts}, {Key: "max", Value: highest}}), true, nil
}

func (v maxima) Begin(key string) model.ViewFold { return &testFold{key: key, whole: v.whole} }

func (v maxima) whole(key string, parts []model.Part) (bson.Raw, error) {
	changes := make([]model.PartChange, len(parts))
	for i, part := range parts {
		changes[i].After = part.Document
	}
	whole, _, err := v.Merge(key, nil, changes)
	return whole, err
}

// TestUnchangedDocumentConflicts covers the race for which every document of a changed part is
// written, even if its own fields stay the same. One transaction makes a smaller part smaller,
// and the maximum stays. Another one removes the maximum, and reads the smaller part as it was.
func TestUnchangedDocumentConflicts(t *testing.T) {
	t.Parallel()
	plain := newDatabase(t)
	high, low := viewUnit("high"), viewUnit("low")
	first := newTestStore(t, plain)
	write := func(u model.Unit, to int64, part bson.Raw) model.Write {
		w := partWrite(u, first.state(t, u), to, part)
		w.View = maxima{}
		return w
	}
	first.apply(t, model.Applied, write(high, 1, partWith("x", to("k", 9))), write(low, 1, partWith("x", to("k", 5))))
	removal, smaller := write(high, 2, nil), write(low, 2, partWith("x", to("k", 3)))
	asked := make(chan struct{}, 100)
	owner := newTestStore(t, &faulty{database: plain, before: func(command, _ string) error {
		if command == "update" {
			asked <- struct{}{}
		}
		return nil
	}})
	var other sync.WaitGroup
	var once sync.Once
	late := newTestStore(t, &faulty{database: plain, before: func(command, _ string) error {
		if command == "commit" {
			once.Do(func() {
				other.Go(func() { owner.apply(t, model.Applied, smaller) })
				<-asked
			})
		}
		return nil
	}})
	late.apply(t, model.Applied, removal)
	other.Wait()
	now, err := readView(t.Context(), plain, high)
	if err != nil {
		t.Fatal(err)
	}
	now.expectDocument(t, "k", `{"max":3}`)
}

// uncertain loses the reply of each commit.
type uncertain struct{ database }

func (u uncertain) transaction(ctx context.Context, do func(context.Context) error) error {
	if err := u.database.transaction(ctx, do); err != nil {
		return err
	}
	return fmt.Errorf("%w: %w", errUncertain, errUnanswered)
}

// TestUnknownCommitOfParts checks that a commit without a reply is reported as such, and is
// not repeated. The repetition by the caller changes nothing.
func TestUnknownCommitOfParts(t *testing.T) {
	t.Parallel()
	db := onMongo(server.Database(t))
	counted := &faulty{database: uncertain{db}}
	cut, s := newTestStore(t, counted), newTestStore(t, db)
	var writes []model.Write
	for i := range 3 {
		writes = append(writes, partWrite(viewUnit(fmt.Sprint(i)), model.State{}, 2, partWith("x", to("k", 4))))
	}
	results, err := cut.Write(t.Context(), writes)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Status != model.Unknown || !errors.Is(r.Err, errUncertain) {
			t.Errorf("%+v", r)
		}
	}
	if n := counted.begun.Load(); n != 1 {
		t.Errorf("%d transactions", n)
	}
	before := expectWhole(t, db, viewUnit(""))
	before.expectDocument(t, "k", `{"sum":12,"max":4,"notes":{"0":"x","1":"x","2":"x"}}`)
	s.apply(t, model.Applied, writes...)
	if after := expectWhole(t, db, viewUnit("")); after.documents["k"].String() != before.documents["k"].String() {
		t.Errorf("%s became %s", before.documents["k"], after.documents["k"])
	}
}

// TestNoPartIsChangedUnderTheNameBeforeAPromotion changes a part as a pod does that a promotion
// did not wait for. Its watermark must not rise, because readers would never see the change.
func TestNoPartIsChangedUnderTheNameBeforeAPromotion(t *testing.T) {
	t.Parallel()
	database := server.Database(t)
	db := onMongo(database)
	s := newTestStore(t, db)
	building, live := secondOfView("sums.generation-2"), secondOfView("sums")
	s.put(t, building, 1, partWith("x", to("k", 1)))
	if err := promote(t, database); err != nil {
		t.Fatal(err)
	}
	late := partWrite(building, s.state(t, live), 2, partWith("x", to("k", 2)))
	late.Building = true
	results, err := s.Write(t.Context(), []model.Write{late})
	if err != nil || results[0].Status != model.Unknown || !errors.Is(results[0].Err, model.ErrSuperseded) {
		t.Errorf("%+v, %v", results, err)
	}
	if exists, err := db.exists(t.Context(), "sums.generation-2"); err != nil || exists {
		t.Errorf("the collection exists again: %v, %v", exists, err)
	}
	s.put(t, live, 2, partWith("x", to("k", 2)))
	expectWhole(t, db, live).expectDocument(t, "k", `{"sum":2,"max":2,"notes":{"a":"x"}}`)
}

// TestPromotionWaitsForPartsThatChange renames the collection while a transaction is about to
// insert a document.
func TestPromotionWaitsForPartsThatChange(t *testing.T) {
	t.Parallel()
	database := server.Database(t)
	if err := Prepare(t.Context(), database, []string{"sums.generation-2"}); err != nil {
		t.Fatal(err)
	}
	renamed := make(chan error, 1)
	db := renamedAfterLook{onMongo(database), func() {
		go func() { renamed <- promote(t, database) }()
	}}
	first := partWrite(secondOfView("sums.generation-2"), model.State{}, 1, partWith("x", to("k", 1)))
	first.Building = true
	results, err := newTestStore(t, db).Write(t.Context(), []model.Write{first})
	if err := errors.Join(err, <-renamed); err != nil || results[0].Status != model.Applied {
		t.Fatalf("%+v, %v", results, err)
	}
	expectWhole(t, onMongo(database), secondOfView("sums")).expectDocument(t, "k", `{"sum":1,"max":1,"notes":{"a":"x"}}`)
}

// secondOfView is a unit of the second generation of the view.
func secondOfView(collection string) model.Unit {
	u := viewUnit("a")
	u.Generation, u.Collection = 2, collection
	return u
}

// promote renames the collection of the second generation.
func promote(t *testing.T, db *mongo.Database) error {
	t.Helper()
	return db.Client().Database("admin").RunCommand(t.Context(), bson.D{
		{Key: "renameCollection", Value: db.Name() + ".sums.generation-2"}, {Key: "to", Value: db.Name() + ".sums"},
	}).Err()
}

// renamedAfterLook begins to rename a collection when a transaction has found that it exists.
type renamedAfterLook struct {
	database
	rename func()
}

func (r renamedAfterLook) exists(ctx context.Context, collection string) (bool, error) {
	found, err := r.database.exists(ctx, collection)
	r.rename()
	return found, err
}

// TestOpenTransactionBlocksOnlyItsOwnDocument covers a transaction that never ends because its
// process was killed. The other documents of a group are written.
func TestOpenTransactionBlocksOnlyItsOwnDocument(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := newTestStore(t, db)
	var writes []model.Write
	for i := range 30 {
		u := viewUnit(fmt.Sprint(i))
		key := fmt.Sprint(i % 10)
		s.put(t, u, 1, partWith("x", to(key, 1)))
		w := partWrite(u, s.state(t, u), 2, partWith("y", to(key, 1)))
		if i%3 == 0 {
			w.Document = nil
		}
		writes = append(writes, w)
	}
	killed, begun := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- db.transaction(context.Background(), func(ctx context.Context) error {
			_, err := db.remove(ctx, "sums", []bson.Raw{build(0).string("_id", "4").raw()})
			close(begun)
			<-killed
			return err
		})
	}()
	<-begun
	for i, r := range s.write(t, writes...) {
		if want := i%10 != 4; want != (r.Status == model.Applied) || !want && r.Status != model.Unknown {
			t.Errorf("%d: %+v", i, r)
		}
	}
	close(killed)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := db.insert(t.Context(), "sums", []bson.Raw{testkit.Raw(bson.D{{Key: "_id", Value: "4"}, {Key: "lastUpdatedAt", Value: time.Now()}, {Key: "lastGeneration", Value: int64(1)}, {Key: "parts", Value: int64(3)},
		{Key: "sum", Value: int64(3)}, {Key: "max", Value: int64(1)}, {Key: "notes", Value: bson.D{{Key: "14", Value: "x"}, {Key: "24", Value: "x"}, {Key: "4", Value: "x"}}}})}); err != nil {
		t.Fatal(err)
	}
	s.apply(t, model.Applied, writes...)
	expectWhole(t, db, viewUnit(""))
}
