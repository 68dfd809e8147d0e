package mongoemu_test

import (
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

// For comparison, a real mongod on 2 shared cores with the bare driver: insertMany 49,000
// events/s of 0.8 kB, a change stream 115,000 events/s, an unordered bulk of guarded
// updates 14,800 documents/s, single updates 3,000/s.

const benchBatch = 1000

func benchColl(b *testing.B) *mongo.Collection {
	b.Helper()
	_, client := start(b, mongoemu.Config{OplogBytes: 4 << 30})
	return client.Database("bench").Collection("events")
}

// benchEvent is an event of about 0.8 kB.
func benchEvent(aggregate, id int) bson.Raw {
	payload := bson.D{}
	for i := range 10 {
		payload = append(payload, bson.E{Key: fmt.Sprintf("field%d", i), Value: "some text of a payload that fills the event up to size"})
	}
	raw, err := bson.Marshal(bson.D{
		{Key: "_id", Value: bson.NewObjectID()}, {Key: "aggregateId", Value: fmt.Sprintf("aggregate-%08d", aggregate)},
		{Key: "eventId", Value: int64(id)}, {Key: "eventType", Value: "Happened"}, {Key: "payload", Value: payload},
	})
	if err != nil {
		panic(err)
	}
	return raw
}

func eventBatch(n int) []any {
	docs := make([]any, benchBatch)
	for i := range docs {
		docs[i] = benchEvent(i, n)
	}
	return docs
}

func indexEvents(b *testing.B, coll *mongo.Collection) {
	b.Helper()
	_, err := coll.Indexes().CreateOne(b.Context(), mongo.IndexModel{
		Keys: bson.D{{Key: "aggregateId", Value: 1}, {Key: "eventId", Value: 1}}, Options: options.Index().SetUnique(true),
	})
	if err != nil {
		b.Fatal(err)
	}
}

func perSecond(b *testing.B, n int, unit string) {
	b.Helper()
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), unit)
	b.ReportMetric(0, "ns/op")
}

// One operation is a batch of 1,000 events.
func BenchmarkInsertMany(b *testing.B) {
	coll := benchColl(b)
	indexEvents(b, coll)
	b.SetBytes(int64(benchBatch * len(benchEvent(0, 1))))
	for n := 1; b.Loop(); n++ {
		b.StopTimer()
		docs := eventBatch(n)
		b.StartTimer()
		if _, err := coll.InsertMany(b.Context(), docs, options.InsertMany().SetOrdered(false)); err != nil {
			b.Fatal(err)
		}
	}
	perSecond(b, b.N*benchBatch, "events/s")
}

// One operation is 1,000 events read from one cursor.
func BenchmarkChangeStream(b *testing.B) {
	coll := benchColl(b)
	const batches = 50
	cs, err := coll.Watch(b.Context(), mongo.Pipeline{})
	if err != nil {
		b.Fatal(err)
	}
	_ = cs.Close(b.Context())
	from := cs.ResumeToken()
	for n := 1; n <= batches; n++ {
		if _, err := coll.InsertMany(b.Context(), eventBatch(n)); err != nil {
			b.Fatal(err)
		}
	}
	pipeline := mongo.Pipeline{
		{{Key: "$match", Value: bson.D{{Key: "operationType", Value: "insert"}}}},
		{{Key: "$project", Value: bson.D{{Key: "_id", Value: 1}, {Key: "operationType", Value: 1}, {Key: "fullDocument", Value: 1}, {Key: "clusterTime", Value: 1}}}},
	}
	b.SetBytes(int64(benchBatch * len(benchEvent(0, 1))))
	var stream *mongo.ChangeStream
	left := 0
	for b.Loop() {
		if left == 0 {
			if stream != nil {
				_ = stream.Close(b.Context())
			}
			if stream, err = coll.Watch(b.Context(), pipeline, options.ChangeStream().SetResumeAfter(from).SetBatchSize(5000)); err != nil {
				b.Fatal(err)
			}
			left = batches
		}
		left--
		for range benchBatch {
			if !stream.Next(b.Context()) {
				b.Fatal(stream.Err())
			}
		}
	}
	_ = stream.Close(b.Context())
	perSecond(b, b.N*benchBatch, "events/s")
}

// One operation is an unordered bulk of 1,000 updates, each guarded by the
// watermark of its document.
func BenchmarkBulkGuardedUpdates(b *testing.B) {
	coll := benchColl(b)
	docs := make([]any, benchBatch)
	for i := range docs {
		docs[i] = bson.D{{Key: "_id", Value: fmt.Sprintf("aggregate-%08d", i)}, {Key: "lastEventId", Value: int64(0)}, {Key: "name", Value: "n"}}
	}
	if _, err := coll.InsertMany(b.Context(), docs); err != nil {
		b.Fatal(err)
	}
	for n := int64(1); b.Loop(); n++ {
		models := make([]mongo.WriteModel, benchBatch)
		for i := range models {
			models[i] = mongo.NewUpdateOneModel().
				SetFilter(bson.D{{Key: "_id", Value: fmt.Sprintf("aggregate-%08d", i)}, {Key: "lastEventId", Value: bson.D{{Key: "$gte", Value: n - 1}, {Key: "$lt", Value: n}}}}).
				SetUpdate(bson.D{{Key: "$set", Value: bson.D{{Key: "lastEventId", Value: n}, {Key: "name", Value: "m"}}}, {Key: "$inc", Value: bson.D{{Key: "count", Value: 1}}}})
		}
		r, err := coll.BulkWrite(b.Context(), models, options.BulkWrite().SetOrdered(false))
		if err != nil || r.ModifiedCount != benchBatch {
			b.Fatal(r, err)
		}
	}
	perSecond(b, b.N*benchBatch, "docs/s")
}

func BenchmarkSingleUpdate(b *testing.B) {
	coll := benchColl(b)
	if _, err := coll.InsertOne(b.Context(), bson.D{{Key: "_id", Value: 1}, {Key: "n", Value: 0}}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		r, err := coll.UpdateOne(b.Context(), bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}})
		if err != nil || r.ModifiedCount != 1 {
			b.Fatal(r, err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "updates/s")
}
