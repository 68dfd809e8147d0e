package eventstore_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
)

func TestKnownQueriesEveryTypeOfAnID(t *testing.T) {
	t.Parallel()
	oid, _ := bson.ObjectIDFromHex("0123456789abcdef01234567")
	s, events := newServer(t, bson.D{{Key: "ok", Value: 1}, {Key: "values", Value: bson.A{
		"b", oid, int32(7), bson.Binary{Subtype: 4, Data: make([]byte, 16)}, 1.5,
	}}})
	r := newReader(t, events)
	r.Only(event.IDObjectID)
	known, err := r.Known(t.Context(), []string{"b", "0123456789abcdef01234567", "7", "00000000-0000-0000-0000-000000000000", "07", "nobody"})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"distinct":"events","key":"aggregateId","query":{"aggregateId":{"$in":["b","0123456789abcdef01234567",{"$oid":"0123456789abcdef01234567"},"7",7,` +
		`"00000000-0000-0000-0000-000000000000",{"$binary":{"base64":"AAAAAAAAAAAAAAAAAAAAAA==","subType":"04"}},"07","nobody"]}},"readConcern":{"level":"majority"}}`
	if got := s.Command(t, 0); got != want {
		t.Errorf("asked by %s, want %s", got, want)
	}
	if _, ok := known[oid.Hex()]; !ok || len(known) != 1 {
		t.Errorf("known are %v, want the ObjectId only", known)
	}
}

func TestAggregatesOfTypesAreAskedFor(t *testing.T) {
	t.Parallel()
	s, events := newServer(t, bson.D{{Key: "ok", Value: 1}, {Key: "values", Value: bson.A{"b"}}})
	r := newReader(t, events)
	a, b := testkit.Raw(bson.D{{Key: "id", Value: "a"}}).Lookup("id"), testkit.Raw(bson.D{{Key: "id", Value: "b"}}).Lookup("id")
	of, err := r.OfTypes(t.Context(), []bson.RawValue{a, b}, []string{"Order"}, bson.Timestamp{T: 7})
	if err != nil || len(of) != 1 || !of["b"].Equal(b) {
		t.Errorf("%v, %v", of, err)
	}
	want := `{"distinct":"events","key":"aggregateId","query":{"aggregateId":{"$in":["a","b"]},"aggregateType":{"$in":["Order"]}},"readConcern":{"level":"majority","afterClusterTime":{"$timestamp":{"t":7,"i":0}}}}`
	if got := s.Command(t, 0); got != want {
		t.Errorf("asked by %s, want %s", got, want)
	}
}
