package verify

import (
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestCompareDocument(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC)
	exp := want{lastEventID: int64(3), document: bson.M{
		"items": int64(2), "at": at, "note": nil, "lines": bson.A{bson.M{"sku": "a", "quantity": int64(1)}},
	}}
	right := func() bson.M {
		return bson.M{
			"_id": "o", "lastEventId": int64(3), "lastUpdatedAt": bson.NewDateTimeFromTime(at),
			"items": int32(2), "at": bson.NewDateTimeFromTime(at), "note": nil,
			"lines": bson.A{bson.D{{Key: "quantity", Value: int32(1)}, {Key: "sku", Value: "a"}}},
		}
	}
	for name, test := range map[string]struct {
		change func(bson.M)
		says   string
	}{
		"equal, integers of another width":   {func(bson.M) {}, ""},
		"an event behind":                    {func(m bson.M) { m["lastEventId"] = int64(2) }, "lastEventId is 2, not 3"},
		"applied twice":                      {func(m bson.M) { m["items"] = int64(3) }, "items is 3, not 2"},
		"a field missing":                    {func(m bson.M) { delete(m, "at") }, "has no at"},
		"a null missing":                     {func(m bson.M) { delete(m, "note") }, "has no note"},
		"an additional field":                {func(m bson.M) { m["x"] = 1 }, "a field x that it should not have"},
		"a repeated element":                 {func(m bson.M) { m["lines"] = append(m["lines"].(bson.A), "b") }, "lines is"},
		"a double in place of an integer":    {func(m bson.M) { m["items"] = 2.5 }, "items is 2.5"},
		"no date of its last update":         {func(m bson.M) { delete(m, "lastUpdatedAt") }, "not a date"},
		"a watermark that is not an integer": {func(m bson.M) { m["lastEventId"] = "3" }, "lastEventId is 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := right()
			test.change(got)
			says := compareDocument(got, exp)
			if (says == "") != (test.says == "") || !strings.Contains(says, test.says) {
				t.Errorf("says %q, not %q", says, test.says)
			}
		})
	}
}
