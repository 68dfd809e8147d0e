package readable_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongoxtest"
	"github.com/penstock-cdc/penstock/publisher/internal/readable"
)

// page is a server's complete reply to a find.
func page(documents ...any) bson.D {
	return bson.D{{Key: "ok", Value: 1}, {Key: "cursor", Value: bson.D{
		{Key: "id", Value: int64(0)}, {Key: "ns", Value: "shop.events"}, {Key: "firstBatch", Value: append(bson.A{}, documents...)},
	}}}
}

// stored returns n events with ids from first on. number is the field of the event id, and
// of returns the aggregate of an event.
func stored(first, n int, number string, of func(int) string) []any {
	var documents []any
	for i := first; i < first+n; i++ {
		documents = append(documents, bson.D{
			{Key: "_id", Value: i}, {Key: "aggregateId", Value: of(i)}, {Key: number, Value: i + 1}, {Key: "eventType", Value: "Happened"},
		})
	}
	return documents
}

// check is the check of the store. The quarantine has the events with a smaller _id.
func check(server *mongoxtest.Server, share float64, known int) readable.Check {
	return readable.Check{
		Events: server.Client.Database("shop").Collection("events"), Fields: event.DefaultFields(), Share: share,
		Known: func(_ context.Context, ids []bson.RawValue) ([]bool, error) {
			found := make([]bool, len(ids))
			for i, id := range ids {
				found[i] = id.AsInt64() < int64(known)
			}
			return found, nil
		},
	}
}

func each(i int) string { return fmt.Sprint("agg-", i) }
func one(int) string    { return "agg" }

func TestSampleOfTheStore(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		newest, oldest []any
		share          float64
		known          int    // the events with a smaller _id are in the quarantine
		want           string // empty if the store passes
	}{
		"empty":                    {nil, nil, 0.5, 0, ""},
		"readable":                 {stored(50, 50, "eventId", each), stored(0, 50, "eventId", each), 0.5, 0, ""},
		"wrong name":               {stored(50, 50, "number", each), stored(0, 50, "number", each), 0.5, 0, "100 of 100"},
		"wrong name, few events":   {stored(0, 3, "number", one), stored(0, 3, "number", one), 0.5, 0, "3 of 3"},
		"two unreadable events":    {stored(0, 2, "number", each), stored(0, 2, "number", each), 0.5, 0, ""},
		"one among many":           {append(stored(51, 49, "eventId", each), stored(50, 1, "number", each)...), stored(0, 50, "eventId", each), 0.5, 0, ""},
		"one poison aggregate":     {stored(50, 50, "number", one), stored(0, 2, "eventId", each), 0.5, 0, ""},
		"renamed in the newest":    {stored(50, 50, "number", each), stored(0, 50, "eventId", each), 0.5, 0, "50 of 50 of the newest"},
		"unreadable in the past":   {stored(50, 50, "eventId", each), stored(0, 50, "number", each), 0.5, 0, ""},
		"unreadable as before":     {append(stored(70, 30, "number", each), stored(0, 70, "eventId", each)...), nil, 0.5, 0, ""},
		"quarantined before":       {stored(0, 80, "number", each), stored(80, 20, "eventId", each), 0.5, 80, ""},
		"quarantined, and new":     {stored(50, 50, "number", each), stored(0, 50, "number", each), 0.5, 50, "50 of 50"},
		"wrong name, switched off": {stored(50, 50, "number", each), stored(0, 50, "number", each), 1, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := mongoxtest.NewServer(t, page(test.newest...), page(test.oldest...))
			_, err := check(server, test.share, test.known).Ends(t.Context())
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, readable.ErrUnreadable) {
				t.Fatalf("passes: %v", err)
			}
			for _, want := range []string{test.want, `missing_event_id in field "eventId" (PENSTOCK_FIELD_EVENT_ID)`, `"number"`, "PENSTOCK_UNREADABLE_LIMIT=1"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %s", err, want)
				}
			}
			wantCommand := `{"aggregate":"events","pipeline":[{"$sort":{"_id":-1}},{"$limit":100}],"cursor":{"batchSize":20}}`
			if got := server.Command(t, 0); !strings.HasPrefix(got, wantCommand[:len(wantCommand)-1]) {
				t.Errorf("asked by %s, want %s", got, wantCommand)
			}
		})
	}
}

func TestErrorOfReadingTheSampleIsReturned(t *testing.T) {
	t.Parallel()
	server := mongoxtest.NewServer(t, bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 13}, {Key: "errmsg", Value: "not authorized"}})
	_, err := check(server, 0.5, 0).Ends(t.Context())
	if err == nil || errors.Is(err, readable.ErrUnreadable) || !strings.Contains(err.Error(), "not authorized") {
		t.Errorf("says %v", err)
	}
}
