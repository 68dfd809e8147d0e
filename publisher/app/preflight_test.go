package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/Azure/go-amqp"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
	"github.com/penstock-cdc/penstock/publisher/internal/quarantine"
	"github.com/penstock-cdc/penstock/publisher/internal/term"
)

var ok = bson.D{{Key: "ok", Value: 1}}

func TestMongoDBIsCheckedAtTheStart(t *testing.T) {
	t.Parallel()
	store := mongox.Store{URI: "mongodb://user:hunter2@db", Database: "shop", Collection: "events"}
	refusal := bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 18}, {Key: "errmsg", Value: "Authentication failed."}}
	for name, test := range map[string]struct {
		replies []bson.D
		want    string
	}{
		"replica set": {[]bson.D{ok, mongotest.Hello(bson.E{Key: "setName", Value: "rs0"})}, ""},
		"sharded":     {[]bson.D{ok, mongotest.Hello(bson.E{Key: "msg", Value: "isdbgrid"})}, ""},
		"Cosmos DB":   {[]bson.D{ok, {{Key: "ok", Value: 1}, {Key: "setName", Value: "globaldb"}}}, "Azure DocumentDB or Cosmos DB, whose change streams lack"},
		"standalone":  {[]bson.D{ok, mongotest.Hello()}, "run rs.initiate()"},
		"too old":     {[]bson.D{ok, {{Key: "ok", Value: 1}, {Key: "setName", Value: "rs0"}, {Key: "maxWireVersion", Value: 9}}, {{Key: "ok", Value: 1}, {Key: "version", Value: "4.3.1"}}}, "older than MongoDB 6.0: its version is 4.3.1; upgrade it"},
		"password":    {[]bson.D{refusal}, "check the user, the password"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := awaitMongoDB(t.Context(), mongox.Client{Client: mongotest.NewReplies(t, test.replies...).Client, What: "event store", Store: store}, zerolog.Nop())
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2")):
				t.Errorf("says %v", err)
			}
		})
	}
}

func TestAwaitingMongoDBEndsWithItsContext(t *testing.T) {
	t.Parallel()
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if err := awaitMongoDB(ctx, mongox.Client{Client: mongotest.NewReplies(t).Client, What: "state"}, zerolog.Nop()); !errors.Is(err, stop) {
		t.Errorf("ended with %v", err)
	}
}

func TestTheEventStoreIsCheckedAtTheStart(t *testing.T) {
	t.Parallel()
	indexes := func(names ...string) bson.D {
		var batch bson.A
		for _, name := range names {
			key := bson.D{{Key: "_id", Value: 1}}
			if name != "_id_" {
				key = bson.D{{Key: "aggregateId", Value: 1}, {Key: "eventId", Value: 1}}
			}
			batch = append(batch, bson.D{{Key: "v", Value: 2}, {Key: "key", Value: key}, {Key: "name", Value: name}})
		}
		return bson.D{{Key: "ok", Value: 1}, {Key: "cursor", Value: bson.D{
			{Key: "id", Value: int64(0)}, {Key: "ns", Value: "shop.events"}, {Key: "firstBatch", Value: batch},
		}}}
	}
	for name, test := range map[string]struct {
		reply bson.D
		want  string
	}{
		"usable index":     {indexes("_id_", "byAggregate"), ""},
		"index missing":    {indexes("_id_"), "createIndex"},
		"does not exist":   {bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 26}}, ""},
		"unauthorized":     {bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 13}}, "grant the user"},
		"cannot be listed": {bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 2}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			history := eventstore.NewReader(mongotest.NewReplies(t, test.reply).Client.Database("shop").Collection("events"), event.DefaultFields(), zerolog.Nop())
			err := checkEvents(t.Context(), history, mongox.Store{}, zerolog.Nop())
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("says %v", err)
			}
		})
	}
}

func TestTheTopicIsCheckedAtTheStart(t *testing.T) {
	t.Parallel()
	config := sbus.Config{Namespace: "orders", Topic: "events"}
	check := func(result error) (reached bool, err error) {
		return checkTopic(t.Context(), func(context.Context) error { return result }, config, zerolog.Nop())
	}
	if reached, err := check(nil); err != nil || !reached {
		t.Error(err)
	}
	down := &publish.SendError{Fault: publish.FaultDisconnected, Err: errors.New("connection refused")}
	if reached, err := check(down); err != nil || reached {
		t.Errorf("a broker that is down keeps it from starting: %v", err)
	}
	missing := &publish.SendError{Fault: publish.FaultFatal, Err: &amqp.Error{Condition: amqp.ErrCondNotFound}}
	if _, err := check(missing); err == nil || !strings.Contains(err.Error(), "create it") {
		t.Errorf("says %v", err)
	}
}

// A publisher that restarts has put the newest events into the quarantine, so they are known.
func TestStartAcceptsWhatIsQuarantined(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	database := server.Database(t)
	s := &stores{events: database.Collection("events"), state: database}
	c := config.Config{Fields: event.DefaultFields()}
	c.Stream.Name = "events"
	check := func() error { return checkReadable(ctx, s.sample(c), zerolog.Nop()) }
	var entries []quarantine.Entry
	for i := range 100 {
		document := bson.D{{Key: "_id", Value: i}, {Key: "aggregateId", Value: fmt.Sprint("a", i)}, {Key: "eventType", Value: "T"}}
		entries = append(entries, quarantine.Entry{DocumentID: testkit.Raw(document).Lookup("_id"), Reason: event.ReasonMissingEventID})
		if _, err := s.events.InsertOne(ctx, document); err != nil {
			t.Fatal(err)
		}
	}
	if err := check(); !errors.Is(err, term.ErrUnreadable) || !strings.Contains(err.Error(), "all 100 of them") {
		t.Errorf("100 new unreadable events: %v", err)
	}
	if err := quarantine.NewStore(s.state.Collection(quarantine.CollectionName), "events", quarantine.Options{}).Put(ctx, 1, entries...); err != nil {
		t.Fatal(err)
	}
	if err := check(); err != nil {
		t.Errorf("all are in the quarantine: %v", err)
	}
	// Another stream has its own quarantine.
	c.Stream.Name = "other"
	if err := check(); !errors.Is(err, term.ErrUnreadable) {
		t.Errorf("another stream: %v", err)
	}
}
