package watch_test

import (
	"runtime"
	"testing"
	"weak"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

// newServer starts a server that returns these replies, and connects the driver to it.
// The replies have the form of replies recorded from a real replica set.
func newServer(t *testing.T, replies ...bson.D) (*mongotest.Replies, *mongo.Collection) {
	t.Helper()
	s := mongotest.NewReplies(t, replies...)
	return s, s.Client.Database("shop").Collection("events")
}

func reply(batch string, id int64, postBatchToken string, documents ...any) bson.D {
	return bson.D{
		{Key: "ok", Value: 1},
		{Key: "cursor", Value: bson.D{
			{Key: "id", Value: id},
			{Key: "ns", Value: "shop.events"},
			{Key: batch, Value: append(bson.A{}, documents...)},
			{Key: "postBatchResumeToken", Value: bson.D{{Key: "_data", Value: postBatchToken}}},
		}},
	}
}

func insertOf(token string, n int32) bson.D {
	return bson.D{
		{Key: "_id", Value: bson.D{{Key: "_data", Value: token}}},
		{Key: "operationType", Value: "insert"},
		{Key: "clusterTime", Value: bson.Timestamp{T: 100, I: uint32(n)}},
		{Key: "fullDocument", Value: bson.D{{Key: "_id", Value: n}}},
		{Key: "documentKey", Value: bson.D{{Key: "_id", Value: n}}},
	}
}

func tokenIn(raw bson.Raw) string { s, _ := raw.Lookup("_data").StringValueOK(); return s }

func TestBatchesOfTheDriverAreReadAsChunks(t *testing.T) {
	t.Parallel()
	s, events := newServer(t,
		reply("firstBatch", 7, "82A9"),
		reply("nextBatch", 7, "82B9", insertOf("82B1", 1), insertOf("82B2", 2)),
		reply("nextBatch", 7, "82C9"),
		reply("nextBatch", 0, "82D9", bson.D{{Key: "_id", Value: bson.D{{Key: "_data", Value: "82D9"}}}, {Key: "operationType", Value: "invalidate"}}),
	)
	token := testkit.Raw(bson.D{{Key: "_data", Value: "8201"}})
	stream, err := watch.NewCollection(events).Open(t.Context(), watch.Position{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	var chunks []watch.Chunk
	for range 4 {
		chunk, err := stream.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		chunks = append(chunks, chunk)
	}
	for i, want := range []struct {
		changes int
		token   string
	}{{0, "82A9"}, {2, "82B9"}, {0, "82C9"}, {1, "82D9"}} {
		if got := chunks[i]; len(got.Changes) != want.changes || tokenIn(got.Token) != want.token {
			t.Errorf("chunk %d has %d changes up to %s, want %d up to %s", i, len(got.Changes), tokenIn(got.Token), want.changes, want.token)
		}
	}
	if n := chunks[1].Changes[1].Lookup("fullDocument", "_id").Int32(); n != 2 {
		t.Errorf("second change is of %d", n)
	}
	if _, err := stream.Next(t.Context()); err == nil {
		t.Error("a cursor that the server has closed gives no error")
	}
	if err := stream.Close(t.Context()); err != nil {
		t.Error(err)
	}
	open := `{"aggregate":"events","pipeline":[` +
		`{"$changeStream":{"startAfter":{"_data":"8201"}}},` +
		`{"$match":{"operationType":{"$in":["insert","update","replace","delete","drop","rename","dropDatabase","invalidate"]}}},` +
		`{"$project":{"_id":1,"operationType":1,"clusterTime":1,"wallTime":1,"documentKey":1,"fullDocument":1}}],` +
		`"cursor":{"batchSize":1024},"readConcern":{"level":"majority"}}`
	if got := s.Command(t, 0); got != open {
		t.Errorf("opened by\n%s, want\n%s", got, open)
	}
	if got, want := s.Command(t, 1), `{"getMore":7,"collection":"events","batchSize":1024,"maxTimeMS":1000}`; got != want {
		t.Errorf("read by\n%s, want\n%s", got, want)
	}
}

func TestStreamOpensAtATime(t *testing.T) {
	t.Parallel()
	s, events := newServer(t, reply("firstBatch", 0, "82A9"))
	source := watch.NewCollection(events)
	if _, err := source.Open(t.Context(), watch.Position{}); err == nil {
		t.Error("Open accepted an empty position, which would mean the present")
	}
	stream, err := source.Open(t.Context(), watch.Position{Time: bson.Timestamp{T: 5, I: 6}})
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Close(t.Context()); err != nil {
		t.Error(err)
	}
	want := `{"aggregate":"events","pipeline":[` +
		`{"$changeStream":{"startAtOperationTime":{"$timestamp":{"t":5,"i":6}}}},` +
		`{"$match":{"operationType":{"$in":["insert","update","replace","delete","drop","rename","dropDatabase","invalidate"]}}},` +
		`{"$project":{"_id":1,"operationType":1,"clusterTime":1,"wallTime":1,"documentKey":1,"fullDocument":1}}],` +
		`"cursor":{"batchSize":1024},"readConcern":{"level":"majority"}}`
	if got := s.Command(t, 0); got != want {
		t.Errorf("opened by\n%s, want\n%s", got, want)
	}
}

func TestALargeReplyIsCutIntoChunks(t *testing.T) {
	t.Parallel()
	var documents []any
	for n := range int32(1200) {
		documents = append(documents, insertOf("82", n))
	}
	_, events := newServer(t, reply("firstBatch", 7, "82FF", documents...), bson.D{{Key: "ok", Value: 1}})
	stream, err := watch.NewCollection(events).Open(t.Context(), watch.Position{Time: bson.Timestamp{T: 1}})
	if err != nil {
		t.Fatal(err)
	}
	next := int32(0)
	for _, want := range []int{512, 512, 176} {
		chunk, err := stream.Next(t.Context())
		if err != nil || len(chunk.Changes) != want {
			t.Fatalf("chunk of %d, want %d: %v", len(chunk.Changes), want, err)
		}
		for _, change := range chunk.Changes {
			if n := change.Lookup("fullDocument", "_id").Int32(); n != next {
				t.Fatalf("change of %d, want %d", n, next)
			}
			next++
		}
	}
	if err := stream.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestKeptEventDoesNotRetainItsBatch: an event that waits for its acknowledgement counts
// with its own size, so it must not keep its whole batch in memory.
func TestKeptEventDoesNotRetainItsBatch(t *testing.T) {
	t.Parallel()
	const events, oneOf = 2048, 16
	var documents []any
	for n := range int32(events) {
		documents = append(documents, append(insertOf("82", n), bson.E{Key: "filler", Value: make([]byte, 1<<10)}))
	}
	_, collection := newServer(t, reply("firstBatch", 7, "82FF", documents...), bson.D{{Key: "ok", Value: 1}})
	stream, err := watch.NewCollection(collection).Open(t.Context(), watch.Position{Time: bson.Timestamp{T: 1}})
	if err != nil {
		t.Fatal(err)
	}
	var waiting []bson.Raw
	var handled []weak.Pointer[byte]
	for read := 0; read < events; {
		chunk, err := stream.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, change := range chunk.Changes {
			if read++; read%oneOf == 0 {
				waiting = append(waiting, change)
			} else {
				handled = append(handled, weak.Make(&change[0]))
			}
		}
	}
	runtime.GC()
	held := 0
	for _, change := range handled {
		if change.Value() != nil {
			held++
		}
	}
	if limit := 4 * len(waiting); held > limit {
		t.Errorf("%d events hold %d of %d others, want at most %d", len(waiting), held, len(handled), limit)
	}
	runtime.KeepAlive(waiting)
	if err := stream.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestErrorOfTheServerIsClassified(t *testing.T) {
	t.Parallel()
	_, events := newServer(t, bson.D{
		{Key: "ok", Value: 0}, {Key: "code", Value: 286}, {Key: "codeName", Value: "ChangeStreamHistoryLost"},
		{Key: "errmsg", Value: "resume point may no longer be in the oplog"},
		{Key: "errorLabels", Value: bson.A{"NonResumableChangeStreamError"}},
	})
	_, err := watch.NewCollection(events).Open(t.Context(), atStart)
	if class, _ := watch.Classify(err, watch.Opening); class != watch.HistoryLost {
		t.Errorf("%v is %v", err, class)
	}
}

func TestChunksShowHowFarBehindTheyAre(t *testing.T) {
	t.Parallel()
	at := func(r bson.D, newest uint32) bson.D {
		return append(r, bson.E{Key: "operationTime", Value: bson.Timestamp{T: newest, I: 1}})
	}
	var full []any
	for n := range int32(1024) {
		full = append(full, insertOf("820000006400000001", n))
	}
	_, events := newServer(t,
		at(reply("firstBatch", 7, "820000006400000001", full...), 5000),
		at(reply("nextBatch", 7, "820000100000000001", insertOf("820000100000000001", 1)), 5010),
		bson.D{{Key: "ok", Value: 1}},
	)
	stream, err := watch.NewCollection(events).Open(t.Context(), atStart)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []watch.Chunk{
		{More: true, Time: bson.Timestamp{T: 100, I: 1}, Newest: bson.Timestamp{T: 5000, I: 1}}, // half of a full reply
		{More: true, Time: bson.Timestamp{T: 100, I: 1}, Newest: bson.Timestamp{T: 5000, I: 1}},
		{More: false, Time: bson.Timestamp{T: 4096, I: 1}, Newest: bson.Timestamp{T: 5010, I: 1}},
	} {
		chunk, err := stream.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if chunk.More != want.More || chunk.Time != want.Time || chunk.Newest != want.Newest {
			t.Errorf("more %v, at %v of %v; want %+v", chunk.More, chunk.Time, chunk.Newest, want)
		}
	}
	if err := stream.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestPingAsksTheServer(t *testing.T) {
	t.Parallel()
	s, events := newServer(t, bson.D{{Key: "ok", Value: 1}}, bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 11600}, {Key: "errmsg", Value: "shutdown"}})
	source := watch.NewCollection(events)
	if err := source.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	if err := source.Ping(t.Context()); err == nil {
		t.Error("an error counts as an answer")
	}
	if got := s.Command(t, 0); got != `{"ping":1}` {
		t.Errorf("asked %s", got)
	}
}
