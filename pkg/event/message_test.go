package event_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
)

func TestMessageID(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		aggregateID string
		eventID     int64
		want        string
	}{
		{"user-1", 7, "user-1/7"},
		{strings.Repeat("x", 126), 7, strings.Repeat("x", 126) + "/7"},
		{strings.Repeat("x", 127), 7, "sha256:70156a14adbabf98cff3a71c7084b417abf057a8efd27329ca36b7202c87d81f/7"},
		{strings.Repeat("x", 126), 17, ""},
		{"a", math.MaxInt64, "a/9223372036854775807"},
	} {
		got := event.MessageID(c.aggregateID, c.eventID)
		if c.want == "" {
			if !strings.HasPrefix(got, "sha256:") || !strings.HasSuffix(got, fmt.Sprintf("/%d", c.eventID)) || len(got) > 128 {
				t.Errorf("%d bytes: got %q", len(c.aggregateID), got)
			}
		} else if got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// No two events have the same message id, and every id fits the limit.
func TestMessageIDsDiffer(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.OneOf(rapid.StringN(1, 200, -1), rapid.StringMatching(`[ab/0-9]{1,6}`))
		a, b := id.Draw(t, "a"), id.Draw(t, "b")
		n, m := rapid.Int64Range(1, math.MaxInt64).Draw(t, "n"), rapid.Int64Range(1, math.MaxInt64).Draw(t, "m")
		first, second := event.MessageID(a, n), event.MessageID(b, m)
		if (first == second) != (a == b && n == m) {
			t.Fatalf("%q/%d and %q/%d are %q and %q", a, n, b, m, first, second)
		}
		if len(first) > event.MaxIDBytes {
			t.Fatalf("%q is too long", first)
		}
	})
}

// An aggregate whose id is the hash of a longer one shares neither messages nor a session
// with it.
func TestNoIDTakesTheFormOfAHashedOne(t *testing.T) {
	t.Parallel()
	perAggregate := event.NewSessionKeys(event.SessionPerAggregate, 0)
	long := strings.Repeat("x", 129)
	forged := perAggregate.Key(long)
	if !strings.HasPrefix(forged, "sha256:") || len(forged) != 71 || perAggregate.Key(forged) == forged || event.MessageID(forged, 7) == event.MessageID(long, 7) {
		t.Errorf("%q is taken for the long id", forged)
	}
	for _, id := range []string{"a", long[:128], forged[:70]} {
		if got := perAggregate.Key(id); got != id {
			t.Errorf("%q became %q", id, got)
		}
	}
}

// The bucket of an aggregate must never change, because events in flight would lose their
// order.
func TestBucketsAreStable(t *testing.T) {
	t.Parallel()
	keys := event.NewSessionKeys(event.SessionPerBucket, 64)
	for id, want := range map[string]string{
		"":                         "bucket-38",
		"a":                        "bucket-27",
		"order-4711":               "bucket-1",
		"deadbeef01020304050607ff": "bucket-40",
		"Ü/€ 𝄞":                    "bucket-41",
	} {
		if got := keys.Key(id); got != want {
			t.Errorf("%q: got %s, want %s", id, got, want)
		}
	}
}

// Ids that differ only in their last characters are spread evenly over any number of
// buckets.
func TestBucketsAreEven(t *testing.T) {
	t.Parallel()
	for _, buckets := range []int{1, 2, 7, 64, 100, 256} {
		keys := event.NewSessionKeys(event.SessionPerBucket, buckets)
		for _, format := range []string{"%d", "order-%08d", "%024x", "1-%d"} {
			counts := make(map[string]int)
			const ids = 100_000
			for i := range ids {
				counts[keys.Key(fmt.Sprintf(format, i))]++
			}
			mean := float64(ids) / float64(buckets)
			for key, n := range counts {
				// The bound is five standard deviations of a uniform distribution.
				if d := math.Abs(float64(n) - mean); d > 5*math.Sqrt(mean) {
					t.Errorf("%d buckets, %s: %s has %d, the mean is %.0f", buckets, format, key, n, mean)
				}
			}
			if len(counts) != buckets {
				t.Errorf("%d buckets, %s: only %d are used", buckets, format, len(counts))
			}
		}
	}
}

func TestEncode(t *testing.T) {
	t.Parallel()
	doc := testkit.Raw(order())
	ev, err := reader(t).Read(doc)
	if err != nil {
		t.Fatal(err)
	}
	m, err := encoder(t, event.EncodingBSON).Encode(&ev, 5)
	if err != nil {
		t.Fatal(err)
	}
	if m.Keys != ev.Keys || m.MessageID != "order-4711/7" || m.SessionKey != "order-4711" || m.ContentType != "application/bson" || &m.Body[0] != &doc[0] || m.ClaimCheck {
		t.Errorf("got %+v", m)
	}
	want := map[string]any{
		"aggregateId": "order-4711", "aggregateType": "Order", "eventId": int64(7), "eventType": "ItemAddedToOrderEvent",
		"epoch": int64(5), "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": "vendor=1",
		"Diagnostic-Id": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
	}
	if got := properties(&m); !maps.Equal(got, want) {
		t.Errorf("properties %v", got)
	}
	bare := event.Message{Keys: event.Keys{AggregateID: "a", EventID: 1, EventType: "T"}}
	if got := properties(&bare); !maps.Equal(got, map[string]any{"aggregateId": "a", "eventId": int64(1), "eventType": "T", "epoch": int64(0)}) {
		t.Errorf("properties %v", got)
	}
}

func TestEncodeClaimCheck(t *testing.T) {
	t.Parallel()
	for _, encoding := range []event.Encoding{event.EncodingJSON, event.EncodingBSON} {
		ev, err := reader(t).Read(testkit.Raw(order()))
		if err != nil {
			t.Fatal(err)
		}
		m, err := encoder(t, encoding).EncodeClaimCheck(&ev, 5)
		if err != nil {
			t.Fatal(err)
		}
		if !m.ClaimCheck || properties(&m)["claimCheck"] != true || m.TraceParent == "" {
			t.Errorf("got %+v", m)
		}
		doc, err := event.DecodeBody(m.ContentType, m.Body)
		if err != nil {
			t.Fatal(err)
		}
		got, err := reader(t).Read(doc)
		if err != nil || got.Keys != ev.Keys || !got.Timestamp.Equal(ev.Timestamp) || got.Payload.Type != 0 || got.Metadata.Type != 0 {
			t.Errorf("read back %+v, %v", got, err)
		}
		if doc.Lookup("_id").ObjectID() != (bson.ObjectID{1, 2, 3}) {
			t.Error("other fields are gone")
		}
	}
	// A claim check contains neither a second payload nor another large field, but the
	// longest keys.
	long := strings.Repeat("k", event.MaxKeyBytes)
	large := append(with("aggregateId", long),
		bson.E{Key: "payload", Value: "second"},
		bson.E{Key: "attachment", Value: strings.Repeat("x", event.MaxKeyBytes+1)},
		bson.E{Key: "note", Value: "short"})
	ev, err := reader(t).Read(testkit.Raw(large))
	if err != nil {
		t.Fatal(err)
	}
	m, err := encoder(t, event.EncodingBSON).EncodeClaimCheck(&ev, 1)
	if err != nil {
		t.Fatal(err)
	}
	body := bson.Raw(m.Body)
	if body.Lookup("payload").Type != 0 || body.Lookup("attachment").Type != 0 || body.Lookup("note").StringValue() != "short" || body.Lookup("aggregateId").StringValue() != long {
		t.Errorf("got %s", body)
	}

	// Without a payload nothing is omitted; a broken document is refused.
	plain := testkit.Raw(with("payload", nil))
	if ev, err = reader(t).Read(plain); err != nil {
		t.Fatal(err)
	}
	ev.Metadata = bson.RawValue{}
	if m, err := encoder(t, event.EncodingBSON).EncodeClaimCheck(&ev, 1); err != nil || !bytes.Equal(m.Body, plain) {
		t.Errorf("got %v, %v", m.Body, err)
	}
	var broken *event.ContractError
	if _, err := encoder(t, event.EncodingBSON).EncodeClaimCheck(&event.Event{Document: plain[:20]}, 1); !errors.As(err, &broken) {
		t.Errorf("got %v", err)
	}
}

func TestTraceContext(t *testing.T) {
	t.Parallel()
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for name, c := range map[string]struct {
		metadata      any
		parent, state string
	}{
		"both":            {bson.D{{Key: "tracestate", Value: "a=1"}, {Key: "traceparent", Value: parent}}, parent, "a=1"},
		"parent":          {bson.D{{Key: "traceparent", Value: parent}}, parent, ""},
		"state alone":     {bson.D{{Key: "tracestate", Value: "a=1"}}, "", ""},
		"no strings":      {bson.D{{Key: "traceparent", Value: 5}}, "", ""},
		"no document":     {"traceparent", "", ""},
		"too long":        {bson.D{{Key: "traceparent", Value: strings.Repeat("0", 300)}}, "", ""},
		"state too long":  {bson.D{{Key: "traceparent", Value: parent}, {Key: "tracestate", Value: strings.Repeat("0", 5000)}}, parent, ""},
		"not valid UTF-8": {bson.D{{Key: "traceparent", Value: "\xff"}}, "", ""},
		"empty":           {bson.D{{Key: "traceparent", Value: ""}, {Key: "tracestate", Value: "a=1"}}, "", ""},
		"two lines":       {bson.D{{Key: "traceparent", Value: parent + "\nx"}, {Key: "tracestate", Value: "a=1"}}, "", ""},
		"none":            {nil, "", ""},
	} {
		ev, err := reader(t).Read(testkit.Raw(with("metadata", c.metadata)))
		if err != nil {
			t.Fatal(err)
		}
		m, err := encoder(t, event.EncodingBSON).Encode(&ev, 1)
		if err != nil || m.TraceParent != c.parent || m.TraceState != c.state {
			t.Errorf("%s: got %q, %q, %v", name, m.TraceParent, m.TraceState, err)
		}
	}
}

func TestTraceContextOfAMessage(t *testing.T) {
	t.Parallel()
	const first = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	const second = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for name, c := range map[string]struct {
		properties    map[string]any
		parent, state string
	}{
		"none":                              {map[string]any{}, "", ""},
		"W3C":                               {map[string]any{"traceparent": first, "tracestate": "a=1"}, first, "a=1"},
		"W3C before Diagnostic-Id":          {map[string]any{"traceparent": first, "Diagnostic-Id": second}, first, ""},
		"other types":                       {map[string]any{"traceparent": 1, "tracestate": 2, "Diagnostic-Id": 3}, "", ""},
		"a tracestate that is not a string": {map[string]any{"traceparent": first, "tracestate": 2}, first, ""},
	} {
		if parent, state := event.TraceContext(c.properties); parent != c.parent || state != c.state {
			t.Errorf("%s: got %q, %q", name, parent, state)
		}
	}
}

func TestCloudEvents(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ev, err := reader(t).Read(testkit.Raw(with("timestamp", at)))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := encoder(t, event.EncodingJSON).Encode(&ev, 1)
	if err != nil {
		t.Fatal(err)
	}
	m, err := encoder(t, event.EncodingJSON).WithSource("/shop").Encode(&ev, 1)
	if err != nil {
		t.Fatal(err)
	}
	got := properties(&m)
	for name, want := range map[string]any{
		"cloudEvents:specversion": "1.0", "cloudEvents:id": m.MessageID, "cloudEvents:source": "/shop",
		"cloudEvents:type": ev.EventType, "cloudEvents:subject": ev.AggregateID, "cloudEvents:time": at,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
		delete(got, name)
	}
	// All other properties are the same as without CloudEvents.
	if !maps.Equal(got, properties(&plain)) || m.MessageID != plain.MessageID || m.ContentType != plain.ContentType || !bytes.Equal(m.Body, plain.Body) {
		t.Errorf("got %v, want %v", got, properties(&plain))
	}
	for name := range properties(&plain) {
		if strings.HasPrefix(name, "cloudEvents") {
			t.Errorf("%s is there without a source", name)
		}
	}
}

// properties returns the application properties of a message as a receiver reads them.
func properties(m *event.Message) map[string]any {
	p := map[string]any{}
	m.PutProperties(p)
	for name, value := range p {
		if v := reflect.ValueOf(value); v.Kind() == reflect.Pointer {
			p[name] = v.Elem().Interface()
		}
	}
	return p
}
