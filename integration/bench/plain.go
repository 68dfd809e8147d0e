package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// plainPublisher publishes n events of the change stream from a time on: send
// one, wait, save the token.
func plainPublisher(ctx context.Context, client *mongo.Client, bus harness.Bus, from bson.Timestamp, n int) error {
	broker, err := azservicebus.NewClientFromConnectionString(bus.ConnectionString, nil)
	if err != nil {
		return fmt.Errorf("connect to the broker: %w", err)
	}
	defer func() { _ = broker.Close(context.WithoutCancel(ctx)) }()
	sender, err := broker.NewSender(bus.Topic, nil)
	if err != nil {
		return fmt.Errorf("open a sender: %w", err)
	}
	events := client.Database(harness.EventsDatabase).Collection(harness.EventsCollection)
	tokens := client.Database(harness.StateDatabase).Collection("plain_tokens")
	stream, err := events.Watch(ctx, mongo.Pipeline{}, options.ChangeStream().SetStartAtOperationTime(&from))
	if err != nil {
		return fmt.Errorf("watch the events: %w", err)
	}
	defer stream.Close(context.WithoutCancel(ctx))

	for range n {
		if !stream.Next(ctx) {
			return errors.Join(stream.Err(), context.Cause(ctx))
		}
		var change struct {
			FullDocument workload.Event `bson:"fullDocument"`
		}
		if err := stream.Decode(&change); err != nil {
			return fmt.Errorf("decode a change: %w", err)
		}
		ev := change.FullDocument
		body, err := bson.MarshalExtJSON(ev, false, false)
		if err != nil {
			return fmt.Errorf("encode an event: %w", err)
		}
		// Its ids are its own, so that the broker does not take the events of the
		// measurement proper for duplicates.
		id, contentType := fmt.Sprintf("plain/%s/%d", ev.AggregateID, ev.EventID), "application/json"
		message := &azservicebus.Message{
			MessageID: &id, SessionID: &ev.AggregateID, PartitionKey: &ev.AggregateID, ContentType: &contentType, Body: body,
		}
		if err := sender.SendMessage(ctx, message, nil); err != nil {
			return fmt.Errorf("send an event: %w", err)
		}
		_, err = tokens.UpdateByID(ctx, "events", bson.D{{Key: "$set", Value: bson.D{{Key: "token", Value: stream.ResumeToken()}}}},
			options.UpdateOne().SetUpsert(true))
		if err != nil {
			return fmt.Errorf("save the token: %w", err)
		}
	}
	return nil
}

// plainIdle is how long the plain projector waits for a session's next message:
// hardly longer than a round trip, which favours it.
const plainIdle = 20 * time.Millisecond

// plainProjector projects messages until it has done n or ctx ends, and says how
// many it did: receive one, update one, complete.
func plainProjector(ctx context.Context, client *mongo.Client, bus harness.Bus, n int) (int, error) {
	broker, err := azservicebus.NewClientFromConnectionString(bus.ConnectionString, nil)
	if err != nil {
		return 0, fmt.Errorf("connect to the broker: %w", err)
	}
	defer func() { _ = broker.Close(context.WithoutCancel(ctx)) }()
	models := client.Database(harness.ReadModelsDatabase).Collection("plainReadModels")

	done := 0
	for done < n && ctx.Err() == nil {
		session, err := broker.AcceptNextSessionForSubscription(ctx, bus.Topic, bus.Subscription, nil)
		if err != nil {
			return done, ignoreEnd(ctx, fmt.Errorf("accept a session: %w", err))
		}
		drained, err := plainSession(ctx, session, models, n-done)
		done += drained
		if err := errors.Join(err, session.Close(context.WithoutCancel(ctx))); err != nil {
			return done, ignoreEnd(ctx, err)
		}
	}
	return done, nil
}

func plainSession(ctx context.Context, session *azservicebus.SessionReceiver, models *mongo.Collection, n int) (int, error) {
	for done := 0; ; done++ {
		if done == n {
			return done, nil
		}
		idle, cancel := context.WithTimeout(ctx, plainIdle)
		received, err := session.ReceiveMessages(idle, 1, nil)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) || err == nil && len(received) == 0 {
			return done, nil
		}
		if err != nil {
			return done, fmt.Errorf("receive: %w", err)
		}
		var ev workload.Event
		if err := bson.UnmarshalExtJSON(received[0].Body, false, &ev); err != nil {
			return done, fmt.Errorf("decode an event: %w", err)
		}
		_, err = models.UpdateByID(ctx, ev.AggregateID, bson.D{
			{Key: "$set", Value: bson.D{{Key: "lastEventId", Value: ev.EventID}, {Key: "lastType", Value: ev.EventType}}},
			{Key: "$inc", Value: bson.D{{Key: "events", Value: 1}}},
		}, options.UpdateOne().SetUpsert(true))
		if err != nil {
			return done, fmt.Errorf("update a read model: %w", err)
		}
		if err := session.CompleteMessage(ctx, received[0], nil); err != nil {
			return done, fmt.Errorf("complete a message: %w", err)
		}
	}
}

// ignoreEnd forgets an error that comes of the measurement's own end.
func ignoreEnd(measurement context.Context, err error) error {
	if measurement.Err() == nil {
		return err
	}
	return nil
}
