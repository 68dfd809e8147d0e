package simulation

import (
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
	"github.com/penstock-cdc/penstock/integration/virtual"
)

// epochs are the versions of a checkpoint in which only the epoch changes.
func epochs(number int64) *version {
	return &version{exists: true, values: [3]value{{set: true, number: number}}}
}

// claim is the request that raises the epoch, if it is the expected one, and its answer.
func claim(expected int64, done bool) *request {
	q := &request{
		conditions: []condition{{value: value{set: true, number: expected}}},
		effects:    []effect{{value: value{number: 1}, adds: true}}, done: done,
	}
	if done {
		q.found = epochs(expected + 1)
	}
	return q
}

func TestForgedAnswersAreNoRegister(t *testing.T) {
	t.Parallel()
	created := func() *request {
		return &request{insert: true, effects: []effect{{value: epochs(1).values[0]}}, done: true}
	}
	set := func(number int64) *request {
		return &request{effects: []effect{{value: epochs(number).values[0]}}, done: true}
	}
	read := func(found *version) *request { return &request{read: true, found: found} }
	for name, test := range map[string]struct {
		requests []*request
		// answered are the seconds of the answers; request i is made at i and answered half a
		// second later by default. 0 means no answer.
		answered map[int]float64
		register bool
	}{
		"claims follow each other":             {requests: []*request{created(), claim(1, true), claim(2, true), read(epochs(3))}, register: true},
		"a claim is late":                      {requests: []*request{created(), claim(1, true), claim(1, false), read(epochs(2))}, register: true},
		"two claims have one epoch":            {requests: []*request{created(), claim(1, true), claim(1, true)}},
		"a claim succeeds before its turn":     {requests: []*request{created(), claim(2, true), claim(1, true)}},
		"a claim in time is refused":           {requests: []*request{created(), claim(1, false)}},
		"a claim is lost":                      {requests: []*request{created(), claim(1, true), read(epochs(1))}},
		"a read is stale":                      {requests: []*request{created(), claim(1, true), read(epochs(2)), read(epochs(1))}},
		"a read overlaps a claim":              {requests: []*request{created(), claim(1, true), read(epochs(1))}, answered: map[int]float64{1: 5}, register: true},
		"a read has what nobody wrote":         {requests: []*request{created(), read(epochs(7))}},
		"a claim without an answer has effect": {requests: []*request{created(), claim(1, false), read(epochs(2))}, answered: map[int]float64{1: 0}, register: true},
		"a claim without an answer has none":   {requests: []*request{created(), claim(1, false), read(epochs(1))}, answered: map[int]float64{1: 0}, register: true},
		"its effect comes and goes":            {requests: []*request{created(), claim(1, false), read(epochs(2)), read(epochs(1))}, answered: map[int]float64{1: 0}},
		"a write raises the epoch":             {requests: []*request{created(), set(3), claim(3, true)}, register: true},
		"a write overwrites a later one":       {requests: []*request{created(), set(3), set(2)}},
		"two writes follow one read":           {requests: []*request{created(), set(2), set(2)}},
		"a document is created twice":          {requests: []*request{created(), created()}},
		"a document is created again":          {requests: []*request{created(), {clear: true, remove: true}, read(&version{}), created()}, register: true},
		"a removed document is read":           {requests: []*request{created(), {clear: true, remove: true}, read(epochs(1))}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			at := func(second float64) time.Time { return began.Add(time.Duration(second * float64(time.Second))) }
			for i, q := range test.requests {
				q.began, q.answered = at(float64(i)), at(float64(i)+0.5)
				if second, ok := test.answered[i]; ok {
					if q.answered = at(second); second == 0 {
						q.answered = time.Time{}
					}
				}
			}
			if err := linearizable(test.requests, began); (err == nil) != test.register {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// A failover loses a write that was acknowledged before a majority had it. The recorded
// requests show this, and nothing before.
func TestRecordedRequestsShowALostWrite(t *testing.T) {
	t.Parallel()
	virtual.Run(t, t.Name, func(t *testing.T) {
		t.Helper()
		ctx := t.Context()
		network, agreed, began := virtual.NewNetwork(1), newRegisters(), time.Now()
		network.Tap = agreed.tap
		server, err := mongoemu.New(mongoemu.Config{Listener: network.Listen(mongodb)})
		if err == nil {
			err = server.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		client, err := mongo.Connect(options.Client().ApplyURI(server.URI()).SetDialer(network.NewHost("client").Dialer(mongodb)))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = client.Disconnect(ctx) }()
		save := func(w *writeconcern.WriteConcern, revision int) {
			_, err := client.Database(stateDatabase).Collection("checkpoints", options.Collection().SetWriteConcern(w)).UpdateOne(ctx,
				bson.D{{Key: "_id", Value: "events"}}, bson.D{{Key: "$set", Value: bson.D{{Key: "revision", Value: revision}}}}, options.UpdateOne().SetUpsert(true))
			if err != nil {
				t.Fatal(err)
			}
		}
		read := func() {
			c := client.Database(stateDatabase).Collection("checkpoints", options.Collection().SetReadConcern(readconcern.Majority()))
			if err := c.FindOne(ctx, bson.D{{Key: "_id", Value: "events"}}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		save(writeconcern.Majority(), 1)
		save(writeconcern.Majority(), 2)
		read()
		if err := linearizable(agreed.requests["checkpoints/events"], began); err != nil {
			t.Fatalf("before the failover: %v", err)
		}
		if err := server.Isolate(); err != nil {
			t.Fatal(err)
		}
		save(writeconcern.W1(), 3)
		if err := server.Failover(); err != nil {
			t.Fatal(err)
		}
		read()
		requests := agreed.requests["checkpoints/events"]
		if err := linearizable(requests, began); err == nil || len(requests) != 5 || len(agreed.unknown) > 0 {
			t.Errorf("%d requests, %v, with the error %v", len(requests), agreed.unknown, err)
		}
	})
}
