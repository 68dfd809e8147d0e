package projection_test

import (
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// TestDepthOfADocumentIsBounded checks that events cannot nest a document deeper and deeper,
// each by one level. MongoDB refuses the whole command then, with the writes of the aggregate's
// neighbours.
func TestDepthOfADocumentIsBounded(t *testing.T) {
	t.Parallel()
	for _, handler := range []string{
		`{set: {a: "{'b': state.?a.orValue({})}"}}`,
		`{set: {a.b: "state.?a.orValue({})"}}`,
		`{set: {"a[payload.k]": "state.?a.orValue({})"}}`,
		`{set: {a: "[state.?a.orValue([])]"}}`,
		`{set: {a: "state.?a.orValue([]).filter(x, false) + [state.?a.orValue([])]"}}`,
		`{set: {a: "{}.merge({'b': state.?a.orValue({})})"}}`,
	} {
		p := projectiontest.On(t, handler)
		var stored bson.Raw
		applied := 0
		for ; applied < 100; applied++ {
			f := p.Fold(stored, []*event.Event{projectiontest.Event(int64(applied+1), "E", `{"k":"b"}`)})
			if f.Err != nil {
				if !strings.Contains(f.Err.Error(), "value nests deeper than 90 levels") {
					t.Errorf("%s: event %d: %v", handler, applied+1, f.Err)
				}
				break
			}
			stored = f.State()
		}
		if applied < 85 || applied > 92 {
			t.Errorf("%s: %d events were applied", handler, applied)
		}
	}
}

// TestTextsAreValidUTF8 checks that a text that drivers of other languages refuse parks its
// aggregate, whether it is set itself or stands in a document that is copied.
func TestTextsAreValidUTF8(t *testing.T) {
	t.Parallel()
	for _, handler := range []string{
		`{set: {a: payload.text}}`,
		`{set: {a: payload.inner}}`,
		`{set: {a: "[payload.inner.text]"}}`,
		`{push: {a: payload.list}}`,
	} {
		payload, err := bson.Marshal(bson.D{{Key: "text", Value: "a\xff"}, {Key: "inner", Value: bson.D{{Key: "text", Value: "a\xff"}}}, {Key: "list", Value: bson.A{"a\xff"}}})
		if err != nil {
			t.Fatal(err)
		}
		e := projectiontest.Event(1, "E", `{}`)
		e.Payload = bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: payload}
		if f := projectiontest.On(t, handler).Fold(nil, []*event.Event{e}); f.Err == nil || !strings.Contains(f.Err.Error(), "string is not valid UTF-8") {
			t.Errorf("%s: %v", handler, f.Err)
		}
	}
}
