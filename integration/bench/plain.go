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

// publishPlainly publishes events of the change stream for the limit's time: it sends one,
// waits, and saves the token.
func publishPlainly(ctx context.Context, l *limitRun) error {
	l.begin()
	n, err := l.publishEach(ctx)
	l.done(n)
	return err
}

// goesOn reports whether a plain loop that has done that many events takes another. The
// first one may exceed the time, because a rate of zero would be meaningless.
func (l *limitRun) goesOn(done int) bool {
	return done < l.Events && (done == 0 || time.Since(l.begun) < l.For)
}

func (l *limitRun) publishEach(ctx context.Context) (done int, err error) {
	broker, err := azservicebus.NewClientFromConnectionString(l.Bus.ConnectionString, nil)
	if err != nil {
		return 0, fmt.Errorf("connect to the broker: %w", err)
	}
	defer func() { _ = broker.Close(context.WithoutCancel(ctx)) }()
	sender, err := broker.NewSender(l.Bus.Topic, nil)
	if err != nil {
		return 0, fmt.Errorf("open a sender: %w", err)
	}
	tokens := l.client.Database(harness.StateDatabase).Collection("plain_tokens")
	stream, err := l.events().Watch(ctx, mongo.Pipeline{}, options.ChangeStream().SetStartAtOperationTime(&l.From))
	if err != nil {
		return 0, fmt.Errorf("watch the events: %w", err)
	}
	defer stream.Close(context.WithoutCancel(ctx))

	for l.goesOn(done) {
		if !stream.Next(ctx) {
			return done, errors.Join(stream.Err(), context.Cause(ctx))
		}
		var change struct {
			FullDocument workload.Event `bson:"fullDocument"`
		}
		if err := stream.Decode(&change); err != nil {
			return done, fmt.Errorf("decode a change: %w", err)
		}
		ev := change.FullDocument
		body, err := bson.MarshalExtJSON(ev, false, false)
		if err != nil {
			return done, fmt.Errorf("encode an event: %w", err)
		}
		id, contentType := fmt.Sprintf("%s/%d", ev.AggregateID, ev.EventID), "application/json"
		message := &azservicebus.Message{
			MessageID: &id, SessionID: &ev.AggregateID, PartitionKey: &ev.AggregateID, ContentType: &contentType, Body: body,
		}
		if err := sender.SendMessage(ctx, message, nil); err != nil {
			return done, fmt.Errorf("send an event: %w", err)
		}
		_, err = tokens.UpdateByID(ctx, "events", bson.D{{Key: "$set", Value: bson.D{{Key: "token", Value: stream.ResumeToken()}}}},
			options.UpdateOne().SetUpsert(true))
		if err != nil {
			return done, fmt.Errorf("save the token: %w", err)
		}
		done++
	}
	return done, nil
}

// plainIdle is how long the plain projector waits for a session's next message. It is
// hardly longer than a round trip, which favours the plain projector.
const plainIdle = 20 * time.Millisecond

// projectPlainly projects messages for the limit's time: it receives one, updates one
// document, and completes.
func projectPlainly(ctx context.Context, l *limitRun) error {
	l.begin()
	n, err := l.projectEach(ctx)
	l.done(n)
	return err
}

func (l *limitRun) projectEach(ctx context.Context) (int, error) {
	broker, err := azservicebus.NewClientFromConnectionString(l.Bus.ConnectionString, nil)
	if err != nil {
		return 0, fmt.Errorf("connect to the broker: %w", err)
	}
	defer func() { _ = broker.Close(context.WithoutCancel(ctx)) }()
	models := l.client.Database(harness.ReadModelsDatabase).Collection("plainReadModels")

	done := 0
	for l.goesOn(done) {
		session, err := broker.AcceptNextSessionForSubscription(ctx, l.Bus.Topic, l.Bus.Subscription, nil)
		if err != nil {
			return done, fmt.Errorf("accept a session: %w", err)
		}
		drained, err := l.plainSession(ctx, session, models, done)
		done += drained
		if err := errors.Join(err, session.Close(context.WithoutCancel(ctx))); err != nil {
			return done, err
		}
	}
	return done, nil
}

// plainSession projects a session's messages until none comes within plainIdle. before is
// the number of messages of other sessions.
func (l *limitRun) plainSession(ctx context.Context, session *azservicebus.SessionReceiver, models *mongo.Collection, before int) (done int, err error) {
	for ; l.goesOn(before + done); done++ {
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
	return done, nil
}
