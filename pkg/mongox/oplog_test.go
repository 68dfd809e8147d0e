package mongox_test

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
)

func TestBeginOfTheOplogIsReadFromTheOplogOrTheServerStatus(t *testing.T) {
	t.Parallel()
	oldest := bson.Timestamp{T: 1_790_000_000, I: 3}
	entries := func(docs ...any) bson.D {
		return bson.D{{Key: "ok", Value: 1}, {Key: "cursor", Value: bson.D{{Key: "id", Value: int64(0)}, {Key: "ns", Value: "local.oplog.rs"}, {Key: "firstBatch", Value: append(bson.A{}, docs...)}}}}
	}
	refused := bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 13}, {Key: "codeName", Value: "Unauthorized"}, {Key: "errmsg", Value: "not authorized"}}
	stepDown := bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 11602}, {Key: "codeName", Value: "InterruptedDueToReplStateChange"}, {Key: "errmsg", Value: "stepping down"}}
	status := func(oplog bson.D) bson.D { return bson.D{{Key: "ok", Value: 1}, {Key: "oplog", Value: oplog}} }
	begins := func(kind string) bson.D {
		return bson.D{{Key: "ts", Value: oldest}, {Key: "op", Value: kind}, {Key: "o", Value: bson.D{{Key: "msg", Value: "initiating set"}}}}
	}
	for name, test := range map[string]struct {
		replies []bson.D
		found   bool
		hidden  bool
		whole   bool
	}{
		"entry":                          {[]bson.D{entries(bson.D{{Key: "ts", Value: oldest}, {Key: "op", Value: "i"}, {Key: "o", Value: bson.D{}}})}, true, false, false},
		"first entry":                    {[]bson.D{entries(begins("n"))}, true, false, true},
		"insert that looks like it":      {[]bson.D{entries(begins("i"))}, true, false, false},
		"status":                         {[]bson.D{refused, status(bson.D{{Key: "earliestOptime", Value: oldest}})}, true, false, false},
		"empty, status":                  {[]bson.D{entries(), status(bson.D{{Key: "earliestOptime", Value: oldest}})}, true, false, false},
		"no rights":                      {[]bson.D{refused, refused}, false, true, false},
		"mongos":                         {[]bson.D{refused, status(nil)}, false, true, false},
		"failover":                       {[]bson.D{stepDown, stepDown, stepDown}, false, false, false},
		"failover at the second request": {[]bson.D{refused, stepDown, stepDown}, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin, err := mongox.ReadOplogBegin(t.Context(), mongotest.NewReplies(t, test.replies...).Client)
			if (err == nil) != test.found || test.found && begin != (mongox.OplogBegin{At: oldest, Complete: test.whole}) || errors.Is(err, mongox.ErrOplogHidden) != test.hidden {
				t.Errorf("found %+v, %v", begin, err)
			}
		})
	}
}
