package compare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/workload"
)

// loopSpec is the input of the loop.
type loopSpec struct {
	MongoURI  string            `json:"mongoURI"`
	Databases harness.Databases `json:"databases"`
	Bus       harness.Bus       `json:"bus"`
	// From is where the change stream starts if no token is saved.
	From bson.Timestamp `json:"from"`
}

// RunLoop is what many people write first: it sends one event, saves the token of the change
// stream, waits for both, and goes on with the next one. arguments come from the parent
// process.
func RunLoop(ctx context.Context, arguments string) (err error) {
	var s loopSpec
	if err := json.Unmarshal([]byte(arguments), &s); err != nil {
		return fmt.Errorf("read the specification of the loop: %w", err)
	}
	client, err := mongo.Connect(options.Client().ApplyURI(s.MongoURI))
	if err != nil {
		return fmt.Errorf("connect to MongoDB: %w", err)
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	broker, err := azservicebus.NewClientFromConnectionString(s.Bus.ConnectionString, nil)
	if err != nil {
		return fmt.Errorf("connect to the broker: %w", err)
	}
	defer func() { _ = broker.Close(context.WithoutCancel(ctx)) }()
	sender, err := broker.NewSender(s.Bus.Topic, nil)
	if err != nil {
		return fmt.Errorf("open a sender: %w", err)
	}
	tokens := client.Database(s.Databases.State).Collection("tokens")
	stream, err := s.watch(ctx, client, tokens)
	if err != nil {
		return err
	}
	defer stream.Close(context.WithoutCancel(ctx))
	for stream.Next(ctx) {
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
		id, contentType := fmt.Sprintf("%s/%d", ev.AggregateID, ev.EventID), "application/json"
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
	return errors.Join(stream.Err(), context.Cause(ctx))
}

// watch opens the change stream at the saved token.
func (s *loopSpec) watch(ctx context.Context, client *mongo.Client, tokens *mongo.Collection) (*mongo.ChangeStream, error) {
	var saved struct {
		Token bson.Raw `bson:"token"`
	}
	at := options.ChangeStream().SetStartAtOperationTime(&s.From)
	switch err := tokens.FindOne(ctx, bson.D{{Key: "_id", Value: "events"}}).Decode(&saved); {
	case err == nil:
		at = options.ChangeStream().SetResumeAfter(saved.Token)
	case !errors.Is(err, mongo.ErrNoDocuments):
		return nil, fmt.Errorf("read the token: %w", err)
	}
	stream, err := client.Database(s.Databases.Events).Collection(harness.EventsCollection).Watch(ctx, mongo.Pipeline{}, at)
	if err != nil {
		return nil, fmt.Errorf("watch the events: %w", err)
	}
	return stream, nil
}
