package eventstore

import (
	"math"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/testkit"
)

// The order must be the server's: with another one, a scan would skip events.
func TestCompareHasTheOrderOfTheIndex(t *testing.T) {
	t.Parallel()
	id := func(hex string) bson.ObjectID {
		id, err := bson.ObjectIDFromHex(hex)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	ordered := []any{
		-1.5, int32(0), int64(7), 7.5, int64(math.MaxInt64),
		"", "A", "a", "a\x00", "aa", "ä",
		bson.Binary{Subtype: 0, Data: []byte{9}}, bson.Binary{Subtype: 3, Data: make([]byte, 16)},
		bson.Binary{Subtype: 4, Data: make([]byte, 16)}, bson.Binary{Subtype: 0, Data: make([]byte, 17)},
		id("000000000000000000000001"), id("ff0000000000000000000000"),
	}
	position := func(aggregate any, event int64) Position {
		var p Position
		for _, part := range []struct {
			v  any
			to *bson.RawValue
		}{{aggregate, &p.AggregateID}, {event, &p.EventID}} {
			*part.to = testkit.Value(part.v)
		}
		return p
	}
	c := &Reader{}
	for i, a := range ordered {
		for j, b := range ordered {
			want := 0
			switch {
			case i < j:
				want = -1
			case i > j:
				want = 1
			}
			if got, known := c.Compare(position(a, 5), position(b, 5)); !known || got != want {
				t.Errorf("%v to %v: %d, %v", a, b, got, known)
			}
		}
		if got, known := c.Compare(position(a, 5), position(a, 6)); !known || got != -1 {
			t.Errorf("events of %v: %d, %v", a, got, known)
		}
		at := position(a, 5)
		if got, known := c.Compare(Before(at.AggregateID), at); !known || got != -1 {
			t.Errorf("the bound before %v: %d, %v", a, got, known)
		}
		if got, known := c.Compare(After(at.AggregateID), at); !known || got != 1 {
			t.Errorf("the bound after %v: %d, %v", a, got, known)
		}
	}
	if _, known := c.Compare(position(bson.Null{}, 1), position("a", 1)); known {
		t.Error("null is no key")
	}
	c.collated.Store(true)
	if _, known := c.Compare(position("a", 1), position("b", 1)); known {
		t.Error("the order of a collation is not known here")
	}
}
