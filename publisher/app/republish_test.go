package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
	"github.com/penstock-cdc/penstock/publisher/internal/quarantine"
	"github.com/penstock-cdc/penstock/publisher/internal/term"
)

// pickyTopic is a sender that refuses the events of some aggregates.
type pickyTopic struct{ refused []string }

func (p pickyTopic) Send(_ context.Context, messages []*event.Message) (int, error) {
	for _, m := range messages {
		if slices.Contains(p.refused, m.AggregateID) {
			return 0, &publish.SendError{Fault: publish.FaultRefused, Err: errors.New("not allowed")}
		}
	}
	return len(messages), nil
}

func (pickyTopic) Close(context.Context) error { return nil }

// eventOf is an event of an aggregate.
func eventOf(aggregate string, number int64) event.Event {
	return event.Event{Keys: event.Keys{AggregateID: aggregate, EventID: number, EventType: "T"}, Document: testkit.Raw(bson.D{{Key: "aggregateId", Value: aggregate}, {Key: "eventId", Value: number}, {Key: "eventType", Value: "T"}})}
}

// thirty is the rate of the tests that are not about the rate.
var thirty = publishRate{Rate: 30}

// republish sends one event for each of n aggregates to a topic, by a command's republisher
// with the given refusals and rate. It returns how many events were sent and how many were
// refused.
func republish(ctx context.Context, t *testing.T, topic pickyTopic, c config.Refusals, limit publishRate, n uint64) (sent int64, failed int, err error) {
	t.Helper()
	o := Options{Config: config.Config{Publish: config.Publish{SessionMode: string(event.SessionPerAggregate), Batching: string(publish.BatchingOff)}, Refusals: c}}
	r := newRepublisher(func(context.Context) (publish.Sender, error) { return topic, nil }, o, 1, limit)
	err = r.run(ctx, o.Config.ServiceBus, func(ctx context.Context, do func(context.Context, event.Event, *quarantine.Record) error) error {
		for i := range n {
			if err := do(ctx, eventOf(fmt.Sprintf("a%03d", i), 1), nil); err != nil {
				return err
			}
		}
		return nil
	})
	return r.sent, len(r.unsent), err
}

// The topic has accepted the other events, or none: a command reports the refused events.
func TestRepublisherReportsRefusedEvents(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		refused []string
		events  uint64
	}{"the last": {[]string{"a009"}, 10}, "all": {[]string{"a000", "a001", "a002"}, 3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				sent, failed, err := republish(t.Context(), t, pickyTopic{refused: test.refused}, config.Refusals{MaxAttempts: 5}, thirty, test.events)
				if took := time.Since(began); err != nil || sent != int64(test.events)-int64(len(test.refused)) || failed != len(test.refused) || took > time.Minute {
					t.Errorf("%d events sent and %d refused in %v: %v", sent, failed, took, err)
				}
			})
		})
	}
}

// A time span can hold later events of an aggregate whose earlier ones are not published yet.
func TestRepublishAwaitsTheLeader(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	database := server.Database(t)
	s := &stores{events: database.Collection("events"), state: database}
	c := config.Config{Fields: event.DefaultFields()}
	c.Stream.Name = "events"
	history := eventstore.NewReader(s.events, c.Fields, zerolog.Nop())
	if _, err := s.events.InsertOne(ctx, bson.D{{Key: "_id", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	save := func(position bson.D) {
		t.Helper()
		if _, err := checkpoint.Checkpoints(database).ReplaceOne(ctx, bson.D{{Key: "_id", Value: "events"}}, position, options.Replace().SetUpsert(true)); err != nil {
			t.Fatal(err)
		}
	}
	if err := awaitPublished(ctx, c, s, history, 0); !errors.Is(err, errNoCheckpoint) {
		t.Errorf("without a checkpoint: %v", err)
	}
	now := uint32(time.Now().Unix())
	for name, position := range map[string]bson.D{
		"behind": {{Key: "clusterTime", Value: bson.Timestamp{T: now - 3600, I: 1}}},
		"scan":   {{Key: "scan", Value: bson.D{{Key: "operationTime", Value: bson.Timestamp{T: now + 3600, I: 1}}}}},
	} {
		save(position)
		if err := awaitPublished(ctx, c, s, history, 0); err == nil || !strings.Contains(err.Error(), "the publisher is behind") {
			t.Errorf("%s: %v", name, err)
		}
	}
	save(bson.D{{Key: "clusterTime", Value: bson.Timestamp{T: now + 3600, I: 1}}})
	if err := awaitPublished(ctx, c, s, history, 0); err != nil {
		t.Errorf("published: %v", err)
	}
}

// TestCommandsRefuseTheCheckpointOfAnotherPipeline: events of another collection, or of other
// sessions, would reach the topic.
func TestCommandsRefuseTheCheckpointOfAnotherPipeline(t *testing.T) {
	t.Parallel()
	database := server.Database(t)
	s := &stores{events: database.Collection("events"), state: database}
	c := config.Config{Fields: event.DefaultFields()}
	c.Stream.Name, c.Publish.SessionMode, c.ServiceBus.Topic = "events", "aggregate", "events"
	c.MongoDB.EventsDatabase, c.MongoDB.EventsCollection = database.Name(), "events"
	here, _, err := term.Identify(t.Context(), c, database.Client())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := checkpoint.NewStore(checkpoint.Checkpoints(database), "events", checkpoint.Options{}).Claim(t.Context(), "test", here); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(c *config.Config){
		"":             func(c *config.Config) { c.ServiceBus.Topic = "copies" },
		"collection":   func(c *config.Config) { c.MongoDB.EventsCollection = "staging" },
		"database":     func(c *config.Config) { c.MongoDB.EventsDatabase = "staging" },
		"session mode": func(c *config.Config) { c.Publish.SessionMode, c.Publish.SessionBuckets = "bucket", 8 },
	} {
		other := c
		change(&other)
		epoch, err := currentEpoch(t.Context(), Options{Config: other}, s)
		if name == "" {
			if err != nil || epoch != 1 {
				t.Errorf("another topic: epoch %d, %v", epoch, err)
			}
			continue
		}
		if !errors.Is(err, checkpoint.ErrOtherPipeline) || !strings.Contains(err.Error(), name+": recorded") {
			t.Errorf("another %s: %v", name, err)
		}
	}
}

func TestMoveToATimeSaysWhatItSkips(t *testing.T) {
	t.Parallel()
	at := func(seconds uint32) checkpoint.Position {
		return checkpoint.Position{ClusterTime: bson.Timestamp{T: seconds, I: 1}}
	}
	scanning := checkpoint.Position{Scan: checkpoint.Scan{OperationTime: bson.Timestamp{T: 100}}}
	unknown := checkpoint.Position{Token: testkit.Raw(bson.D{{Key: "_data", Value: "opaque"}})}
	for name, test := range map[string]struct {
		from, to checkpoint.Position
		want     string
	}{
		"back":             {at(200), at(100), ""},
		"forth":            {at(100), at(200), "stored between 1970-01-01T00:01:40Z and 1970-01-01T00:03:20Z are skipped"},
		"to a scan":        {at(100), scanning, ""},
		"from a scan":      {scanning, at(200), "that the scan has not reached"},
		"from a token":     {unknown, at(200), "if the position is before"},
		"from no position": {checkpoint.Position{}, at(200), ""},
	} {
		if got := skipped(test.from, test.to); got != test.want && (test.want == "" || !strings.Contains(got, test.want)) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
