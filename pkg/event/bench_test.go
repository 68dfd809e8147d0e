package event_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
)

func BenchmarkRead(b *testing.B) {
	r, doc := reader(b), testkit.Raw(order())
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Read(doc); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	ev, err := reader(b).Read(testkit.Raw(order()))
	if err != nil {
		b.Fatal(err)
	}
	for _, encoding := range []event.Encoding{event.EncodingJSON, event.EncodingBSON} {
		enc := encoder(b, encoding)
		b.Run(string(encoding), func(b *testing.B) {
			b.SetBytes(int64(len(ev.Document)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := enc.Encode(&ev, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("driver", func(b *testing.B) {
		b.SetBytes(int64(len(ev.Document)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := bson.MarshalExtJSON(ev.Document, false, false); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkDecodeBody(b *testing.B) {
	doc := testkit.Raw(order())
	body, err := bson.MarshalExtJSON(doc, false, false)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("json", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := event.DecodeBody(event.ContentTypeJSON, body); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("bson", func(b *testing.B) {
		b.SetBytes(int64(len(doc)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := event.DecodeBody(event.ContentTypeBSON, doc); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("driver", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			var raw bson.Raw
			if err := bson.UnmarshalExtJSON(body, false, &raw); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkKeys(b *testing.B) {
	buckets := event.NewSessionKeys(event.SessionPerBucket, 64)
	b.Run("messageId", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = event.MessageID("65a000000000000000000001", 4711)
		}
	})
	b.Run("bucket", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = buckets.Key("65a000000000000000000001")
		}
	})
}
