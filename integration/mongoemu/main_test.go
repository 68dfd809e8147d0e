package mongoemu_test

import (
	"context"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.uber.org/goleak"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/mongoemu/mongoemutest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a server for one test and connects the driver to it.
func start(tb testing.TB, c mongoemu.Config) (*mongoemu.Server, *mongo.Client) {
	tb.Helper()
	s := mongoemutest.Start(tb, c)
	return s, mongoemutest.Connect(tb, s)
}

// collection returns an empty collection of its own server.
func collection(tb testing.TB) *mongo.Collection {
	tb.Helper()
	_, client := start(tb, mongoemu.Config{})
	return client.Database("db").Collection("c")
}

func must[T any](tb testing.TB) func(v T, err error) T {
	tb.Helper()
	return func(v T, err error) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

// all reads a cursor to its end.
func all(tb testing.TB, cursor *mongo.Cursor, err error) []bson.D {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
	docs := []bson.D{}
	if err := cursor.All(context.Background(), &docs); err != nil {
		tb.Fatal(err)
	}
	return docs
}

func d(pairs ...any) bson.D {
	out := bson.D{}
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, bson.E{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return out
}

func appName(name string) func(*options.ClientOptions) {
	return func(o *options.ClientOptions) { o.SetAppName(name) }
}

func resumeAfter(token bson.Raw) *options.ChangeStreamOptionsBuilder {
	return options.ChangeStream().SetResumeAfter(token)
}

func noop(t *testing.T, s *mongoemu.Server) {
	t.Helper()
	if err := s.WriteNoop(); err != nil {
		t.Fatal(err)
	}
}
