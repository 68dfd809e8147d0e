package term_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/publisher/internal/term"
)

// reply is a server's complete reply to a find.
func reply(documents ...any) bson.D {
	return bson.D{{Key: "ok", Value: 1}, {Key: "cursor", Value: bson.D{
		{Key: "id", Value: int64(0)}, {Key: "ns", Value: "shop.events"}, {Key: "firstBatch", Value: append(bson.A{}, documents...)},
	}}}
}

// documents returns n events with ids from first on. number is the field of the event id.
func documents(first, n int, number string) []any {
	var all []any
	for i := first; i < first+n; i++ {
		all = append(all, bson.D{
			{Key: "_id", Value: i}, {Key: "aggregateId", Value: "agg"}, {Key: number, Value: i + 1}, {Key: "eventType", Value: "Happened"},
		})
	}
	return all
}

// sampled is the sample of the store. The quarantine has the events with a smaller _id.
func sampled(server *mongotest.Replies, known int) term.Sample {
	return term.Sample{
		Events: server.Client.Database("shop").Collection("events"), Fields: event.DefaultFields(),
		Known: func(_ context.Context, ids []bson.RawValue) ([]bool, error) {
			found := make([]bool, len(ids))
			for i, id := range ids {
				found[i] = id.AsInt64() < int64(known)
			}
			return found, nil
		},
	}
}

func TestSampleOfTheNewestEvents(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		newest []any
		known  int    // the events with a smaller _id are in the quarantine
		want   string // empty if the store passes
	}{
		"empty":                       {nil, 0, ""},
		"readable":                    {documents(0, 100, "eventId"), 0, ""},
		"wrong name":                  {documents(0, 100, "number"), 0, "all 100 of them"},
		"wrong name, few events":      {documents(0, 3, "number"), 0, "all 3 of them"},
		"two unreadable events":       {documents(0, 2, "number"), 0, ""},
		"most unreadable":             {append(documents(0, 99, "number"), documents(99, 1, "eventId")...), 0, ""},
		"all in the quarantine":       {documents(0, 100, "number"), 100, ""},
		"some in the quarantine only": {documents(0, 100, "number"), 50, "all 50 of them"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := mongotest.NewReplies(t, reply(test.newest...))
			_, err := sampled(server, test.known).Read(t.Context())
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, term.ErrUnreadable) || !term.Fatal(err) {
				t.Fatalf("passes: %v", err)
			}
			for _, want := range []string{test.want, "missing_event_id: field eventId", "set PENSTOCK_FIELD_EVENT_ID", `"number"`} {
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
	server := mongotest.NewReplies(t, bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 13}, {Key: "errmsg", Value: "not authorized"}})
	_, err := sampled(server, 0).Read(t.Context())
	if err == nil || errors.Is(err, term.ErrUnreadable) || !strings.Contains(err.Error(), "not authorized") {
		t.Errorf("says %v", err)
	}
}
