package mongox_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// named is the name of a collection.
type named string

func (n named) Name() string { return string(n) }

// numbered is a record of the tests.
type numbered struct {
	ID     bson.RawValue `bson:"_id"`
	Number int64         `bson:"number"`
}

// read reads records with these numbers.
func read(t *testing.T, numbers ...any) ([]*numbered, error) {
	t.Helper()
	documents := make([]any, len(numbers))
	for i, n := range numbers {
		documents[i] = bson.D{{Key: "_id", Value: bson.D{{Key: "n", Value: i}}}, {Key: "number", Value: n}}
	}
	return mongox.All[*numbered](t.Context(), named("jobs"))(mongo.NewCursorFromDocuments(documents, nil, nil))
}

func TestUnreadableRecordIsNamedBesideTheOthers(t *testing.T) {
	t.Parallel()
	found, err := read(t, 1, "x", 3, "y")
	if len(found) != 2 || found[0].Number != 1 || found[1].Number != 3 {
		t.Errorf("the records are %v", found)
	}
	const want = `the record with the _id {"n": {"$numberInt":"1"}} (and 1 more) of collection jobs cannot be read: error decoding key number`
	if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), "; correct or delete it") {
		t.Errorf("the error is %v", err)
	}
	if found, err := read(t, 1, 2); err != nil || len(found) != 2 {
		t.Errorf("without an unreadable record: %v, %v", found, err)
	}
}

func TestEachOmissionIsReportedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var omitted mongox.Omissions
	for range 2 {
		_, err := read(t, "x", 1, "y")
		if err := omitted.Report(err, zerolog.New(&log)); err != nil {
			t.Error(err)
		}
	}
	if lines := strings.Count(log.String(), "\n"); lines != 2 || strings.Count(log.String(), "unreadable record left out") != 2 {
		t.Errorf("the log is %s", log.String())
	}
	other := errors.New("no answer")
	if err := omitted.Report(other, zerolog.Nop()); !errors.Is(err, other) {
		t.Errorf("another error becomes %v", err)
	}
}
