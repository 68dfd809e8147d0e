package verify_test

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/mongoemu/mongoemutest"
	"github.com/penstock-cdc/penstock/integration/verify"
)

// The reader counts every fault that readers must not see in a rebuild, and nothing else. A
// collection that is empty until it appears is no fault, and neither is one that takes
// another's name.
func TestReader(t *testing.T) {
	t.Parallel()
	client := mongoemutest.Connect(t, mongoemutest.Start(t, mongoemu.Config{}))
	old := func(id int) bson.M { return bson.M{"_id": id} }
	changed := func(id int) bson.M { return bson.M{"_id": id, "size": 3, "lastGeneration": int64(2)} }

	for name, test := range map[string]struct {
		// steps change the collection, which is read between two of them.
		steps []func(*shelf)
		want  verify.Reads
	}{
		"collection grows and is replaced": {
			[]func(*shelf){put(old(1)), put(old(2)), replace(changed(1), changed(2)), put(changed(3))},
			verify.Reads{First: 1, Last: 3},
		},
		"collection appears complete": {[]func(*shelf){nothing, replace(changed(1), changed(2))}, verify.Reads{First: 2, Last: 2}},
		"collection becomes empty":    {[]func(*shelf){put(old(1)), drop, put(old(1))}, verify.Reads{First: 1, Last: 1, Empty: 1}},
		"collection loses a document": {[]func(*shelf){put(old(1), old(2)), replace(changed(1))}, verify.Reads{First: 2, Last: 1, Fewer: 1}},
		"documents of two definitions": {
			[]func(*shelf){put(old(1)), put(changed(2))}, verify.Reads{First: 1, Last: 2, Mixed: 1},
		},
		"new document of the old definition": {
			[]func(*shelf){put(changed(1)), put(bson.M{"_id": 2, "size": 1})}, verify.Reads{First: 1, Last: 2, Mixed: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &shelf{t: t, collection: client.Database(t.Name()[len("TestReader/"):]).Collection("books")}
			var got verify.Reads
			for i, step := range test.steps {
				step(s)
				// Only the first step makes a new reader; its numbers accumulate over the
				// steps.
				got = s.read(i == 0)
			}
			if ok := got.Empty+got.Fewer+got.Mixed == 0; got.OK() != ok || (got.Finding == "") != ok {
				t.Errorf("OK is %t with %+v", got.OK(), got)
			}
			got.Finding, got.Total, got.Changed = "", 0, 0
			got.Empty, got.Fewer, got.Mixed = min(got.Empty, 1), min(got.Fewer, 1), min(got.Mixed, 1)
			if got != test.want {
				t.Errorf("has seen %+v, not %+v", got, test.want)
			}
		})
	}
}

// shelf is a collection with its reader.
type shelf struct {
	t          *testing.T
	collection *mongo.Collection
	reader     *verify.Reader
}

// read reads at least once.
func (s *shelf) read(first bool) verify.Reads {
	s.t.Helper()
	if first {
		s.reader = verify.NewReader(s.collection, "size")
	}
	before := s.reader.Reads().Total
	ctx, stop := context.WithCancel(s.t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- s.reader.Run(ctx) }()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for s.reader.Reads().Total == before {
		<-poll.C
	}
	stop()
	if err := <-ended; err != nil {
		s.t.Fatal(err)
	}
	return s.reader.Reads()
}

func nothing(*shelf) {}

func put(documents ...any) func(*shelf) {
	return func(s *shelf) {
		if _, err := s.collection.InsertMany(s.t.Context(), documents); err != nil {
			s.t.Fatal(err)
		}
	}
}

func drop(s *shelf) {
	if err := s.collection.Drop(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// replace gives the collection's name to another collection.
func replace(documents ...any) func(*shelf) {
	return func(s *shelf) {
		db := s.collection.Database()
		put(documents...)(&shelf{t: s.t, collection: db.Collection("shadow")})
		if err := db.Client().Database("admin").RunCommand(s.t.Context(), bson.D{
			{Key: "renameCollection", Value: db.Name() + ".shadow"}, {Key: "to", Value: db.Name() + ".books"}, {Key: "dropTarget", Value: true},
		}).Err(); err != nil {
			s.t.Fatal(err)
		}
	}
}
