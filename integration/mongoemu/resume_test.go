package mongoemu_test

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

// A stream that resumes at any event's token, or at the token before it, returns exactly
// the later events, even in the middle of a transaction.
func TestResumeFromEveryToken(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := collection(t)
	start := watch(t, c, inserts)
	from := start.ResumeToken()
	insertOne(t, c, "_id", 0)
	session := must[*mongo.Session](t)(c.Database().Client().StartSession())
	defer session.EndSession(ctx)
	_ = must[any](t)(session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		if _, err := c.Database().Collection("other").InsertOne(ctx, d("_id", 1)); err != nil {
			return nil, err
		}
		return c.InsertMany(ctx, []any{d("_id", 1), d("_id", 2), d("_id", 3)})
	}))
	must[*mongo.UpdateResult](t)(c.UpdateOne(ctx, d("_id", 1), d("$set", d("a", 1))))
	insertOne(t, c, "_id", 4)
	tokens := []bson.Raw{from}
	cs := watch(t, c, inserts, options.ChangeStream().SetResumeAfter(from))
	for i := range 5 {
		if e := next(t, cs); get(e, "documentKey", "_id") != int32(i) {
			t.Fatalf("event %d: %v", i, e)
		}
		tokens = append(tokens, cs.ResumeToken())
	}
	for i, token := range tokens {
		for _, o := range []*options.ChangeStreamOptionsBuilder{
			options.ChangeStream().SetResumeAfter(token).SetBatchSize(1).SetMaxAwaitTime(time.Millisecond),
			options.ChangeStream().SetStartAfter(token).SetMaxAwaitTime(time.Millisecond),
		} {
			again := watch(t, c, inserts, o)
			for j := i; j < 5; j++ {
				if e := next(t, again); get(e, "documentKey", "_id") != int32(j) {
					t.Errorf("from token %d: %v, want _id %d", i, e, j)
				}
			}
			if again.TryNext(ctx) {
				t.Errorf("from token %d: one event too many: %v", i, again.Current)
			}
		}
	}
}

func TestStartAtOperationTime(t *testing.T) {
	t.Parallel()
	c := collection(t)
	before := watch(t, c, inserts)
	insertOne(t, c, "_id", 1)
	insertOne(t, c, "_id", 2)
	next(t, before)
	second := next(t, before)
	at := get(second, "clusterTime").(bson.Timestamp)
	cs := watch(t, c, inserts, options.ChangeStream().SetStartAtOperationTime(&at))
	if e := next(t, cs); get(e, "documentKey", "_id") != int32(2) {
		t.Errorf("%v", e)
	}
	future := bson.Timestamp{T: at.T + 1000}
	cs = watch(t, c, inserts, options.ChangeStream().SetStartAtOperationTime(&future))
	insertOne(t, c, "_id", 3)
	if cs.TryNext(t.Context()) {
		t.Errorf("an event before its time: %v", cs.Current)
	}
}

// The oplog keeps what its bounds allow. Earlier positions are lost permanently.
func TestHistoryLost(t *testing.T) {
	t.Parallel()
	s, client := start(t, mongoemu.Config{OplogEntries: 50})
	c := client.Database("db").Collection("c")
	cs := watch(t, c, inserts)
	insertOne(t, c, "_id", "first")
	next(t, cs)
	token, at := cs.ResumeToken(), get(bson.D{{Key: "e", Value: event(t, cs)}}, "e", "clusterTime").(bson.Timestamp)
	open := watch(t, c, inserts, options.ChangeStream().SetResumeAfter(token))
	for i := range 60 {
		insertOne(t, c, "_id", i)
	}
	if n := s.OplogEntries(); n != 50 {
		t.Errorf("%d entries in the oplog", n)
	}
	for name, o := range map[string]*options.ChangeStreamOptionsBuilder{
		"token": options.ChangeStream().SetResumeAfter(token), "time": options.ChangeStream().SetStartAtOperationTime(&at),
	} {
		_, err := c.Watch(t.Context(), inserts, o)
		wantCode(t, err, 286, "may no longer be in the oplog")
		wantLabel(t, err, "NonResumableChangeStreamError", name)
	}
	// An open stream that did not keep up gets the error too.
	for open.Next(t.Context()) {
		t.Errorf("an event after the gap: %v", open.Current)
	}
	wantCode(t, open.Err(), 286, "")
}

func event(t *testing.T, cs *mongo.ChangeStream) bson.D {
	t.Helper()
	var e bson.D
	if err := bson.Unmarshal(cs.Current, &e); err != nil {
		t.Fatal(err)
	}
	return e
}

func wantLabel(t *testing.T, err error, label, what string) {
	t.Helper()
	if labeled, ok := err.(mongo.LabeledError); !ok || !labeled.HasErrorLabel(label) { //nolint:errorlint // the driver's errors are not wrapped here
		t.Errorf("%s: %v has no label %s", what, err, label)
	}
}

// If the oplog has lost nothing, its start counts as earlier than any time.
func TestTimeBeforeACompleteOplog(t *testing.T) {
	t.Parallel()
	s, client := start(t, mongoemu.Config{})
	c := client.Database("db").Collection("c")
	insertOne(t, c, "_id", 1)
	long := bson.Timestamp{T: 1, I: 1}
	cs := watch(t, c, inserts, options.ChangeStream().SetStartAtOperationTime(&long))
	if e := next(t, cs); get(e, "documentKey", "_id") != int32(1) {
		t.Errorf("%v", e)
	}
	s.TruncateOplog(1)
	_, err := c.Watch(t.Context(), inserts, options.ChangeStream().SetStartAtOperationTime(&long))
	wantCode(t, err, 286, "")
}

// The post-batch token of an idle stream advances with every log entry, so that it stays
// inside the oplog.
func TestIdleTokenAdvances(t *testing.T) {
	t.Parallel()
	s, client := start(t, mongoemu.Config{OplogEntries: 20})
	c := client.Database("db").Collection("c")
	cs := watch(t, c, inserts, options.ChangeStream().SetMaxAwaitTime(time.Millisecond))
	first := cs.ResumeToken()
	for range 5 {
		for range 10 {
			noop(t, s)
		}
		idle(t, cs)
	}
	_, err := c.Watch(t.Context(), inserts, options.ChangeStream().SetResumeAfter(first))
	wantCode(t, err, 286, "")
	watch(t, c, inserts, options.ChangeStream().SetResumeAfter(cs.ResumeToken()))
}

// idle reads a stream without events until its token moves.
func idle(t *testing.T, cs *mongo.ChangeStream) {
	t.Helper()
	before := cs.ResumeToken().String()
	for cs.ResumeToken().String() == before {
		if cs.TryNext(t.Context()) || cs.Err() != nil {
			t.Fatal(cs.Current, cs.Err())
		}
	}
}

// A server without writes advances its oplog's time by itself.
func TestPeriodicNoop(t *testing.T) {
	t.Parallel()
	_, client := start(t, mongoemu.Config{NoopInterval: time.Millisecond})
	idle(t, watch(t, client.Database("db").Collection("c"), inserts, options.ChangeStream().SetMaxAwaitTime(time.Millisecond)))
}

// A waiting getMore returns as soon as there is an event. Without one it returns after its
// time limit.
func TestAwaitData(t *testing.T) {
	t.Parallel()
	c := collection(t)
	cs := watch(t, c, inserts, options.ChangeStream().SetMaxAwaitTime(30*time.Second))
	started := time.Now()
	inserted := make(chan error, 1)
	go func() {
		_, err := c.InsertOne(context.Background(), d("_id", 1))
		inserted <- err
	}()
	next(t, cs)
	if waited := time.Since(started); waited >= 30*time.Second {
		t.Errorf("the event took %s", waited)
	}
	if err := <-inserted; err != nil {
		t.Fatal(err)
	}
	idle := watch(t, c, inserts, options.ChangeStream().SetMaxAwaitTime(50*time.Millisecond))
	idle.TryNext(t.Context()) // the driver takes it from the first batch
	started = time.Now()
	if idle.TryNext(t.Context()) {
		t.Error(idle.Current)
	}
	if waited := time.Since(started); waited < 50*time.Millisecond {
		t.Errorf("an idle getMore took %s", waited)
	}
}

func TestMalformedTokens(t *testing.T) {
	t.Parallel()
	c := collection(t)
	cs := watch(t, c, inserts)
	insertOne(t, c, "_id", 1)
	next(t, cs)
	good := cs.ResumeToken().Lookup("_data").StringValue()
	for data, code := range map[string]int32{
		"82": 50811, "8200000000": 50811, "zz": 260, "": 50811, good[:len(good)-2]: 50811,
		// A token whose event does not exist: the next event in a transaction, although
		// there was no transaction.
		good[:20] + "00000001" + good[28:]: 280,
	} {
		_, err := c.Watch(t.Context(), inserts, options.ChangeStream().SetResumeAfter(d("_data", data)))
		wantCode(t, err, code, "")
	}
	_, err := c.Watch(t.Context(), inserts, options.ChangeStream().SetResumeAfter(d("x", 1)))
	wantCode(t, err, 40647, "Bad resume token: _data of missing or of wrong type. Expected string, got { x: 1 }")
	at := bson.Timestamp{T: 1}
	_, err = c.Watch(t.Context(), inserts, options.ChangeStream().SetResumeAfter(cs.ResumeToken()).SetStartAtOperationTime(&at))
	wantCode(t, err, 40674, "Only one type of resume option is allowed")
}

// An event of more than 16 MB ends the stream.
func TestEventTooLarge(t *testing.T) {
	t.Parallel()
	c := collection(t)
	insertOne(t, c, "_id", 1, "b", make([]byte, 16<<20-1024))
	cs := watch(t, c, mongo.Pipeline{}, options.ChangeStream().SetFullDocument(options.UpdateLookup))
	must[*mongo.UpdateResult](t)(c.UpdateOne(t.Context(), d("_id", 1), d("$set", d("b", make([]byte, 16<<20-1024), "x", 1))))
	if cs.Next(t.Context()) {
		t.Logf("event of %d bytes", len(cs.Current))
	}
	must[*mongo.UpdateResult](t)(c.UpdateOne(t.Context(), d("_id", 1), d("$set", d("b", "short", "c", make([]byte, 16<<20-1024)))))
	if cs.Next(t.Context()) {
		t.Fatalf("event of %d bytes", len(cs.Current))
	}
	wantCode(t, cs.Err(), 10334, "BSONObj size")
}

func TestReadConcernOfStreams(t *testing.T) {
	t.Parallel()
	s, _ := start(t, mongoemu.Config{})
	r := dialRaw(t, s).run("db", d("aggregate", "c", "pipeline", bson.A{d("$changeStream", d())}, "cursor", d(), "readConcern", d("level", "local")))
	if get(r, "code") != int32(72) {
		t.Error(r)
	}
}
