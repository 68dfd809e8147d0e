package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// hopSession is the session that the hops' messages go through.
const hopSession = "hops"

// passHops brings one event after the other through what every pipeline must do: insert
// it, see it in a change stream, send it, receive it in a session that is held already, and
// update a document. No hop waits for another event's.
func passHops(ctx context.Context, l *limitRun) error {
	events := l.client.Database("limit").Collection("hops")
	models := l.client.Database("limit").Collection("hopReadModels")
	if _, err := events.InsertOne(ctx, bson.D{{Key: "first", Value: true}}); err != nil {
		return fmt.Errorf("insert: %w", err)
	}
	stream, err := events.Watch(ctx, mongo.Pipeline{})
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer stream.Close(context.WithoutCancel(ctx))
	client, err := azservicebus.NewClientFromConnectionString(l.Bus.ConnectionString, nil)
	if err != nil {
		return fmt.Errorf("connect to the broker: %w", err)
	}
	defer func() { _ = client.Close(context.WithoutCancel(ctx)) }()
	sender, err := client.NewSender(l.Bus.Topic, nil)
	if err != nil {
		return fmt.Errorf("open a sender: %w", err)
	}
	session, err := client.AcceptSessionForSubscription(ctx, l.Bus.Topic, l.Bus.Subscription, hopSession, nil)
	if err != nil {
		return fmt.Errorf("accept the session: %w", err)
	}
	defer func() { _ = session.Close(context.WithoutCancel(ctx)) }()

	times := make(map[string][]time.Duration)
	n := 0
	l.begin()
	for over := time.Now().Add(l.For); time.Now().Before(over); n++ {
		body, err := bson.Marshal(bson.D{{Key: "_id", Value: n}, {Key: "payload", Value: make([]byte, 300)}})
		if err != nil {
			return fmt.Errorf("encode: %w", err)
		}
		last := time.Now()
		hop := func(name string, err error) error {
			now := time.Now()
			if n > 0 { // the first one attaches links
				times[name] = append(times[name], now.Sub(last))
			}
			last = now
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		}
		_, err = events.InsertOne(ctx, bson.Raw(body))
		if err := hop("insert", err); err != nil {
			return err
		}
		stream.Next(ctx)
		if err := hop("stream", stream.Err()); err != nil {
			return err
		}
		key, id := hopSession, fmt.Sprint(n)
		if err := hop("send", sender.SendMessage(ctx, &azservicebus.Message{Body: body, SessionID: &key, PartitionKey: &key, MessageID: &id}, nil)); err != nil {
			return err
		}
		received, err := session.ReceiveMessages(ctx, 1, nil)
		if err := hop("receive", err); err != nil {
			return err
		}
		_, err = models.UpdateByID(ctx, n, bson.D{{Key: "$set", Value: bson.D{{Key: "n", Value: n}}}}, options.UpdateOne().SetUpsert(true))
		if err := hop("update", err); err != nil {
			return err
		}
		for _, m := range received {
			if err := session.CompleteMessage(ctx, m, nil); err != nil {
				return fmt.Errorf("complete: %w", err)
			}
		}
	}
	l.done(n)
	l.result.Values = make(map[string]float64)
	for name, t := range times {
		p50 := percentile(sorted(t), 0.5)
		l.result.Values[name] = p50
		l.result.Values["sum"] += p50
	}
	return nil
}
