package projection_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// TestUnseenBytesAreBounded attacks with bytes that no expression asks for: long names of
// fields, regular expressions that are stored as such, keys that are hashed, and values of
// types that CEL does not know.
func TestUnseenBytesAreBounded(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector multiplies the time")
	}
	const (
		most       = 2 * time.Second
		mostMemory = 256 << 20
	)
	var lines, binaries, keys bson.A
	for i := range 10_000 {
		lines = append(lines, i)
		if i < 2_000 {
			data := make([]byte, 5_000)
			copy(data[4_990:], fmt.Sprint(i))
			binaries = append(binaries, bson.Binary{Subtype: 128, Data: data})
		}
		if i < 100 {
			keys = append(keys, strings.Repeat("k", 60_000)+fmt.Sprint(i))
		}
	}
	long := strings.Repeat("n", 8<<20)
	sent, stored := make([]byte, 7<<20), make([]byte, 7<<20)
	stored[len(stored)-1] = 1
	name := bson.D{{Key: long, Value: 1}}
	regex := bson.D{{Key: "r", Value: bson.Regex{Pattern: long}}}
	country := bson.D{{Key: "country", Value: long}}
	signatures := bson.D{{Key: "sent", Value: bson.Binary{Subtype: 128, Data: sent}}, {Key: "stored", Value: bson.Binary{Subtype: 128, Data: stored}}}
	for i, a := range []struct {
		payload    bson.D
		expression string
		applied    bool
	}{
		{name, "payload.lines.filter(l, l > payload.limit).size()", false},
		{name, "payload.lines.filter(l, payload.size() > l).size()", false},
		{name, "payload.lines.filter(l, payload.exists(k, k == 'none')).size()", false},
		{bson.D{{Key: "a", Value: bson.D{{Key: long[1:], Value: 1}}}, {Key: "b", Value: bson.D{{Key: long[1:], Value: 1}}}}, "payload.lines.exists(l, payload.a != payload.b)", false},
		{regex, "payload.lines.filter(l, l > payload.limit).size()", false},
		{bson.D{{Key: "list", Value: bson.A{bson.Regex{Pattern: long}, 1}}}, "payload.lines.filter(l, 2 in payload.list).size()", false},
		{country, "payload.lines.filter(l, payload.country in ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j']).size()", true},
		{country, "payload.lines.filter(l, payload.country in {'a': 1, 'b': 2}).size()", false},
		{country, "payload.lines.map(l, {'a': 1, 'b': 2}[?payload.country].orValue(0)).size()", false},
		{country, "payload.lines.filter(l, {'a': l}[?payload.country].orValue(l) < 0).size()", false},
		{country, "payload.lines.map(l, {payload.country: l}).size()", false},
		{country, "cel.bind(m, payload.lines.slice(0, 9).transformMap(i, l, l), payload.lines.filter(l, payload.country in m)).size()", false},
		{country, "payload.lines.transformMapEntry(i, l, {payload.country + string(l): l}).size()", false},
		{bson.D{{Key: "keys", Value: keys}}, "cel.bind(m, payload.keys.transformMapEntry(i, k, {k: i}), payload.lines.map(l, m.exists(k, k == 'none'))).size()", false},
		{signatures, "payload.lines.exists(l, payload.sent == payload.stored)", false},
		{signatures, "payload.lines.exists(l, payload.sent in [payload.stored])", false},
		{signatures, "payload.lines.exists(l, optional.of(payload.sent).hasValue(payload.stored))", false},
		{bson.D{{Key: "list", Value: binaries}}, "payload.list.distinct().size()", false},
		{bson.D{{Key: "list", Value: binaries}}, "sets.contains(payload.list, payload.list.reverse())", false},
		{bson.D{}, "cel.bind(o, payload.lines.slice(0, 5000).map(x, optional.of(x)), payload.lines.slice(0, 4500).map(y, o.unwrapOpt())).size()", false},
		{bson.D{}, "cel.bind(o, payload.lines.slice(0, 5000).map(x, optional.of(x)), payload.lines.slice(0, 4500).map(y, optional.unwrap(o))).size()", false},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			ev := projectiontest.Event(1, "E", "")
			ev.Payload = testkit.Value(append(a.payload, bson.E{Key: "lines", Value: lines}, bson.E{Key: "limit", Value: 5}))
			f := foldAttack(t, a.expression, ev, most, mostMemory)
			if (f.Err == nil) != a.applied || f.Err != nil && f.Err.Reason != projection.ReasonExpression {
				t.Errorf("%s: %v", a.expression, f.Err)
			}
		})
	}
}
