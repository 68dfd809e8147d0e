package event_test

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
)

// order is an ordinary event of the shop.
func order() bson.D {
	return bson.D{
		{Key: "_id", Value: bson.ObjectID{1, 2, 3}},
		{Key: "aggregateId", Value: "order-4711"},
		{Key: "aggregateType", Value: "Order"},
		{Key: "eventId", Value: int64(7)},
		{Key: "eventType", Value: "ItemAddedToOrderEvent"},
		{Key: "timestamp", Value: bson.NewDateTimeFromTime(time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC))},
		{Key: "payload", Value: bson.D{
			{Key: "sku", Value: "A-100 \"größe\""}, {Key: "quantity", Value: int32(3)}, {Key: "price", Value: 19.95},
			{Key: "tags", Value: bson.A{"new", "sale"}}, {Key: "gift", Value: true},
			{Key: "customer", Value: bson.D{{Key: "id", Value: bson.ObjectID{4, 5, 6}}, {Key: "name", Value: "Anne Claire"}}},
		}},
		{Key: "metadata", Value: bson.D{
			{Key: "traceparent", Value: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
			{Key: "tracestate", Value: "vendor=1"},
			{Key: "user", Value: "u1"},
		}},
	}
}

func reader(tb testing.TB) *event.Reader {
	tb.Helper()
	r := event.NewReader(event.DefaultFields())
	return r
}

// with returns the order with one field changed, or without the field if value is absent.
func with(name string, value any) bson.D {
	doc := order()
	for i := range doc {
		if doc[i].Key != name {
			continue
		}
		if value == nil {
			return append(doc[:i], doc[i+1:]...)
		}
		doc[i].Value = value
		return doc
	}
	return append(doc, bson.E{Key: name, Value: value})
}

func TestRead(t *testing.T) {
	t.Parallel()
	doc := testkit.Raw(order())
	ev, err := reader(t).Read(doc)
	if err != nil {
		t.Fatal(err)
	}
	want := event.Keys{AggregateID: "order-4711", AggregateType: "Order", EventID: 7, EventType: "ItemAddedToOrderEvent"}
	if ev.Keys != want {
		t.Errorf("keys %+v", ev.Keys)
	}
	if want := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC); !ev.Timestamp.Equal(want) || ev.Timestamp.Location() != time.UTC {
		t.Errorf("timestamp %v", ev.Timestamp)
	}
	if !ev.Payload.Equal(doc.Lookup("payload")) || !ev.Metadata.Equal(doc.Lookup("metadata")) || !bytes.Equal(ev.Document, doc) {
		t.Error("payload, metadata or document differ")
	}
	if ev.RawAggregateID.StringValue() != "order-4711" {
		t.Errorf("raw aggregate id %v", ev.RawAggregateID)
	}
}

func TestReadAggregateID(t *testing.T) {
	t.Parallel()
	id := bson.ObjectID{0xde, 0xad, 0xbe, 0xef, 1, 2, 3, 4, 5, 6, 7, 0xff}
	uuid := []byte{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xAA, 0xBB, 0xCC, 0xDD, 0xEE, 0xFF}
	for _, c := range []struct {
		value any
		want  string
	}{
		{"a", "a"},
		{"Ü/€ 𝄞", "Ü/€ 𝄞"},
		{strings.Repeat("x", event.MaxKeyBytes), strings.Repeat("x", event.MaxKeyBytes)},
		{id, "deadbeef01020304050607ff"},
		{bson.Binary{Subtype: 4, Data: uuid}, "00112233-4455-6677-8899-aabbccddeeff"},
		{int32(-5), "-5"},
		{int32(0), "0"},
		{int64(math.MaxInt64), "9223372036854775807"},
		{int64(math.MinInt64), "-9223372036854775808"},
		{3e9, "3000000000"},
		{math.Copysign(0, -1), "0"},
	} {
		ev, err := reader(t).Read(testkit.Raw(with("aggregateId", c.value)))
		if err != nil || ev.AggregateID != c.want {
			t.Errorf("%v: got %q, %v", c.value, ev.AggregateID, err)
		}
	}
}

func TestReadOptional(t *testing.T) {
	t.Parallel()
	at := time.Date(2010, 3, 31, 14, 59, 42, 5e6, time.UTC)
	for name, c := range map[string]struct {
		doc  bson.D
		want time.Time
		kind string
	}{
		"no timestamp":       {with("timestamp", nil), time.Time{}, "Order"},
		"null timestamp":     {with("timestamp", bson.Null{}), time.Time{}, "Order"},
		"text timestamp":     {with("timestamp", "2010-03-31T14:59:42.005Z"), at, "Order"},
		"zoned timestamp":    {with("timestamp", "2010-03-31T16:59:42.005+02:00"), at, "Order"},
		"oplog's timestamp":  {with("timestamp", bson.Timestamp{T: uint32(at.Unix()), I: 9}), at.Truncate(time.Second), "Order"},
		".NET document":      {with("timestamp", bson.D{{Key: "DateTime", Value: bson.NewDateTimeFromTime(at)}, {Key: "Ticks", Value: int64(634056515820050000)}, {Key: "Offset", Value: int32(120)}}), at, "Order"},
		".NET array":         {with("timestamp", bson.A{int64(634056515820050000), int32(120)}), at, "Order"},
		"no type":            {with("aggregateType", nil), time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC), ""},
		"empty type":         {with("aggregateType", ""), time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC), ""},
		"undefined type":     {with("aggregateType", bson.Undefined{}), time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC), ""},
		"date before 1970":   {with("timestamp", bson.DateTime(-1)), time.UnixMilli(-1), "Order"},
		"null then a second": {append(with("timestamp", bson.Null{}), bson.E{Key: "timestamp", Value: bson.NewDateTimeFromTime(at)}), at, "Order"},
		"twice":              {append(with("aggregateType", "First"), bson.E{Key: "aggregateType", Value: "Second"}), time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC), "First"},
	} {
		ev, err := reader(t).Read(testkit.Raw(c.doc))
		if err != nil || !ev.Timestamp.Equal(c.want) || ev.AggregateType != c.kind {
			t.Errorf("%s: got %v, %q, %v", name, ev.Timestamp, ev.AggregateType, err)
		}
	}
	ev, err := reader(t).Read(testkit.Raw(with("payload", nil)))
	if err != nil || ev.Payload.Type != 0 {
		t.Errorf("no payload: %v, %v", ev.Payload, err)
	}
	if ev, err := reader(t).Read(testkit.Raw(with("payload", "not a document"))); err != nil || ev.Payload.Type != bson.TypeString {
		t.Errorf("text payload: %v, %v", ev.Payload, err)
	}
}

// TestAmbiguousTimestampsCountAsAbsent checks that an event whose optional timestamp is
// ambiguous keeps the contract, and that its form is described.
func TestAmbiguousTimestampsCountAsAbsent(t *testing.T) {
	t.Parallel()
	for want, value := range map[string]any{
		`the text "yesterday"`:           "yesterday",
		`the text "2026-01-02T03:04:05"`: "2026-01-02T03:04:05",
		"a number (64-bit integer)":      int64(1767323045678),
		"a number (double)":              1767323045.5,
		"embedded document":              bson.D{{Key: "DateTime", Value: "2026-01-02"}},
		"array":                          bson.A{int64(1767323045), int32(60)},
		"boolean":                        true,
	} {
		ev, err := reader(t).Read(testkit.Raw(with("timestamp", value)))
		if err != nil || ev.HasTimestamp() || !strings.Contains(ev.UnreadableTimestamp(), want) {
			t.Errorf("%v: got %v, %q, %v; want %q", value, ev.Timestamp, ev.UnreadableTimestamp(), err, want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", event.MaxKeyBytes+1)
	for _, c := range []struct {
		field  string
		value  any
		reason event.Reason
	}{
		{"aggregateId", nil, event.ReasonMissingAggregateID},
		{"aggregateId", bson.Null{}, event.ReasonMissingAggregateID},
		{"aggregateId", "", event.ReasonMissingAggregateID},
		{"aggregateId", 1.5, event.ReasonOutOfRange},
		{"aggregateId", float64(1 << 53), event.ReasonOutOfRange},
		{"aggregateId", math.NaN(), event.ReasonOutOfRange},
		{"aggregateId", true, event.ReasonWrongType},
		{"aggregateId", bson.D{}, event.ReasonWrongType},
		{"aggregateId", bson.Binary{Subtype: 3, Data: make([]byte, 16)}, event.ReasonWrongType},
		{"aggregateId", bson.Binary{Subtype: 4, Data: make([]byte, 15)}, event.ReasonMalformed},
		{"aggregateId", long, event.ReasonOutOfRange},
		{"aggregateId", "a\xff", event.ReasonMalformed},
		{"eventId", nil, event.ReasonMissingEventID},
		{"eventId", bson.Undefined{}, event.ReasonMissingEventID},
		{"eventId", "7", event.ReasonWrongType},
		{"eventId", int32(0), event.ReasonOutOfRange},
		{"eventId", int64(-1), event.ReasonOutOfRange},
		{"eventId", 1.5, event.ReasonOutOfRange},
		{"eventId", 0.0, event.ReasonOutOfRange},
		{"eventId", math.NaN(), event.ReasonOutOfRange},
		{"eventId", math.Inf(1), event.ReasonOutOfRange},
		{"eventId", float64(1 << 63), event.ReasonOutOfRange},
		{"eventType", nil, event.ReasonMissingEventType},
		{"eventType", "", event.ReasonMissingEventType},
		{"eventType", 5, event.ReasonWrongType},
		{"eventType", bson.Symbol("Registered"), event.ReasonWrongType},
		{"eventType", long, event.ReasonOutOfRange},
		{"aggregateType", 5, event.ReasonWrongType},
		{"aggregateType", "\xc3", event.ReasonMalformed},
	} {
		ev, err := reader(t).Read(testkit.Raw(with(c.field, c.value)))
		var broken *event.ContractError
		if !errors.As(err, &broken) || broken.Reason != c.reason || broken.Field != c.field {
			t.Errorf("%s %v: got %v, want %s", c.field, c.value, err, c.reason)
			continue
		}
		if ev.Document == nil || !strings.Contains(err.Error(), string(c.reason)) || !strings.Contains(err.Error(), c.field) {
			t.Errorf("%s %v: event %+v, error %q", c.field, c.value, ev, err)
		}
		// The keys that could be read are returned, for the quarantine.
		if c.field != "eventId" && ev.EventID != 7 || c.field != "aggregateId" && ev.AggregateID != "order-4711" {
			t.Errorf("%s %v: keys %+v", c.field, c.value, ev.Keys)
		}
	}
}

// Event 0 keeps the contract if event ids begin at 0. A double is an id if it is an integer.
func TestReadFromZero(t *testing.T) {
	t.Parallel()
	fields := event.DefaultFields()
	fields.FirstEventID = 0
	r := event.NewReader(fields)
	for value, want := range map[any]int64{int32(0): 0, int64(0): 0, 0.0: 0, 1.0: 1, float64(1 << 53): 1 << 53, float64(1 << 62): 1 << 62} {
		if ev, err := r.Read(testkit.Raw(with("eventId", value))); err != nil || ev.EventID != want {
			t.Errorf("%T %v: event %d, %v", value, value, ev.EventID, err)
		}
	}
	for _, value := range []any{int32(-1), -1.0} {
		if _, err := r.Read(testkit.Raw(with("eventId", value))); !errors.As(err, new(*event.ContractError)) {
			t.Errorf("%v: %v", value, err)
		}
	}
	fields.FirstEventID = 2
	if err := fields.Check(); err == nil {
		t.Error("ids from 2 are accepted")
	}
}

// A document that is cut anywhere is malformed. It causes no panic and is no event.
func TestReadMalformed(t *testing.T) {
	t.Parallel()
	doc := testkit.Raw(order())
	r := reader(t)
	for i := range doc {
		var broken *event.ContractError
		if _, err := r.Read(doc[:i]); !errors.As(err, &broken) || broken.Reason != event.ReasonMalformed {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
	for _, raw := range []string{"", "\x05\x00\x00\x00\x01", "\x06\x00\x00\x00\x02\x00", "\x08\x00\x00\x00\x99a\x00\x00", "\xff\xff\xff\xff\x00"} {
		var broken *event.ContractError
		if _, err := r.Read(bson.Raw(raw)); !errors.As(err, &broken) || broken.Reason != event.ReasonMalformed {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

// Whatever other fields a document has, the contract's fields are read as the driver
// reads them.
func TestReadIgnoresOtherFields(t *testing.T) {
	t.Parallel()
	r := reader(t)
	rapid.Check(t, func(t *rapid.T) {
		doc := documentGen(2).Draw(t, "before")
		id, n := rapid.StringMatching(`[a-z]{1,200}`).Draw(t, "id"), rapid.Int64Range(1, math.MaxInt64).Draw(t, "n")
		doc = append(doc, bson.E{Key: "aggregateId", Value: id}, bson.E{Key: "eventId", Value: n}, bson.E{Key: "eventType", Value: "E"})
		doc = append(doc, documentGen(2).Draw(t, "after")...)
		raw := testkit.Raw(doc)
		ev, err := r.Read(raw)
		if err != nil || ev.AggregateID != id || ev.EventID != n || ev.EventType != "E" {
			t.Fatalf("read %+v, %v", ev.Keys, err)
		}
	})
}

func TestReaderUsesTheConfiguredFieldNames(t *testing.T) {
	t.Parallel()
	r := event.NewReader(event.Fields{
		AggregateID: "stream", AggregateType: "category", EventID: "version", EventType: "type",
		Timestamp: "at", Payload: "data", Metadata: "meta",
	})
	ev, err := r.Read(testkit.Raw(bson.D{{Key: "stream", Value: "s"}, {Key: "version", Value: 1}, {Key: "type", Value: "T"}, {Key: "aggregateId", Value: "other"}}))
	if err != nil || ev.AggregateID != "s" || ev.EventType != "T" {
		t.Fatalf("got %+v, %v", ev.Keys, err)
	}
}

func TestFieldNamesAreChecked(t *testing.T) {
	t.Parallel()
	if err := event.DefaultFields().Check(); err != nil {
		t.Fatal(err)
	}
	f := event.DefaultFields()
	f.AggregateID, f.EventID, f.Payload, f.Metadata = "", "eventType", "a.b", "$m"
	err := f.Check()
	if err == nil {
		t.Fatal("invalid field names were accepted")
	}
	for _, want := range []string{"PENSTOCK_FIELD_AGGREGATE_ID is empty", `PENSTOCK_FIELD_EVENT_TYPE is "eventType", which is also PENSTOCK_FIELD_EVENT_ID`, `PENSTOCK_FIELD_PAYLOAD is "a.b", a path`, `PENSTOCK_FIELD_METADATA is "$m"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
	if err := (event.Fields{}).Check(); err == nil || strings.Count(err.Error(), "is empty") != 7 {
		t.Errorf("zero fields: %v", err)
	}
}

//nolint:paralleltest // it counts allocations
func TestOnlyTheIDOfAnEventIsAllocated(t *testing.T) {
	r, doc := reader(t), testkit.Raw(order())
	if allocs := testing.AllocsPerRun(100, func() { _, _ = r.Read(doc) }); allocs > 1 {
		t.Errorf("%v allocations for an event whose types were read before", allocs)
	}
}
