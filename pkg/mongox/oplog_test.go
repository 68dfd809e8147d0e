package mongox_test

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongoxtest"
)

func TestOplogStartIsReadFromTheOplogOrTheServerStatus(t *testing.T) {
	t.Parallel()
	oldest := bson.Timestamp{T: 1_790_000_000, I: 3}
	entries := func(docs ...any) bson.D {
		return bson.D{{Key: "ok", Value: 1}, {Key: "cursor", Value: bson.D{{Key: "id", Value: int64(0)}, {Key: "ns", Value: "local.oplog.rs"}, {Key: "firstBatch", Value: append(bson.A{}, docs...)}}}}
	}
	refused := bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 13}, {Key: "codeName", Value: "Unauthorized"}, {Key: "errmsg", Value: "not authorized"}}
	stepDown := bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 11602}, {Key: "codeName", Value: "InterruptedDueToReplStateChange"}, {Key: "errmsg", Value: "stepping down"}}
	status := func(oplog bson.D) bson.D { return bson.D{{Key: "ok", Value: 1}, {Key: "oplog", Value: oplog}} }
	for name, test := range map[string]struct {
		replies []bson.D
		found   bool
		hidden  bool
	}{
		"entry":                          {[]bson.D{entries(bson.D{{Key: "ts", Value: oldest}})}, true, false},
		"status":                         {[]bson.D{refused, status(bson.D{{Key: "earliestOptime", Value: oldest}})}, true, false},
		"empty, status":                  {[]bson.D{entries(), status(bson.D{{Key: "earliestOptime", Value: oldest}})}, true, false},
		"no rights":                      {[]bson.D{refused, refused}, false, true},
		"mongos":                         {[]bson.D{refused, status(nil)}, false, true},
		"failover":                       {[]bson.D{stepDown, stepDown, stepDown}, false, false},
		"failover at the second request": {[]bson.D{refused, stepDown, stepDown}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, err := mongox.OplogStart(t.Context(), mongoxtest.NewServer(t, test.replies...).Client)
			if (err == nil) != test.found || test.found && at != oldest || errors.Is(err, mongox.ErrOplogHidden) != test.hidden {
				t.Errorf("found %v, %v", at, err)
			}
		})
	}
}
