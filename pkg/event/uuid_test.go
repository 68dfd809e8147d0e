package event_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
)

// The bytes are those of the drivers' specification:
// https://specifications.readthedocs.io/en/latest/bson-binary-uuid/uuid/#implementing-apis-for-different-uuid-representations
func TestOlderUUIDs(t *testing.T) {
	t.Parallel()
	const text = "00112233-4455-6677-8899-aabbccddeeff"
	for representation, stored := range map[event.UUIDRepresentation]string{
		event.CSharpLegacy: "33221100554477668899aabbccddeeff",
		event.JavaLegacy:   "7766554433221100ffeeddccbbaa9988",
		event.PythonLegacy: "00112233445566778899aabbccddeeff",
	} {
		data, _ := hex.DecodeString(stored)
		document := testkit.Raw(with("aggregateId", bson.Binary{Subtype: bson.TypeBinaryUUIDOld, Data: data}))
		fields := event.DefaultFields()
		fields.UUIDs = representation
		r := event.NewReader(fields)
		ev, err := r.Read(document)
		if err != nil || ev.AggregateID != text {
			t.Errorf("%s: got %q, %v", representation, ev.AggregateID, err)
		}
		if back := representation.Reorder(representation.Reorder([16]byte(data))); [16]byte(data) != back {
			t.Errorf("%s: reordered twice, %x became %x", representation, data, back)
		}
		if kind := r.KindOf(ev.RawAggregateID); kind != "UUID "+event.IDKind(representation) {
			t.Errorf("%s: the kind is %q", representation, kind)
		}
		r.Only(event.IDUUID)
		if _, err := r.Read(document); err == nil || !strings.Contains(err.Error(), "UUID "+string(representation)+", but the ids of this event store are of type UUID") {
			t.Errorf("%s beside UUIDs of subtype 4: %v", representation, err)
		}
		if _, err := reader(t).Read(document); err == nil || !strings.Contains(err.Error(), "add uuidRepresentation=csharpLegacy, javaLegacy or pythonLegacy to the connection string") {
			t.Errorf("without the option: %v", err)
		}
	}
}
