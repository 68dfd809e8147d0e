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
)

// hopSession is the session of the hops' messages.
const hopSession = "hops"

// valueSum is the sum of the hops in ms, beside the values of the hops.
const valueSum = "sum"

var errNoMessage = errors.New("the receiver gave no message")

// hops are the steps that every pipeline must do with an event, without any service.
type hops struct {
	*limitRun
	events, models *mongo.Collection
	stream         *mongo.ChangeStream
	sender         *azservicebus.Sender
	sent           int
}

// passHops passes one event after the other through the hops: insert it, see it in a change
// stream, send it, receive it, and update a document. No hop waits for another event's.
func passHops(ctx context.Context, l *limitRun) error {
	h := &hops{limitRun: l, events: l.client.Database("limit").Collection("hops"), models: l.client.Database("limit").Collection("hopReadModels")}
	if _, err := h.events.InsertOne(ctx, bson.D{{Key: "first", Value: true}}); err != nil {
		return fmt.Errorf("insert: %w", err)
	}
	var err error
	if h.stream, err = h.events.Watch(ctx, mongo.Pipeline{}); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer h.stream.Close(context.WithoutCancel(ctx))
	client, err := azservicebus.NewClientFromConnectionString(l.Bus.ConnectionString, nil)
	if err != nil {
		return fmt.Errorf("connect to the broker: %w", err)
	}
	defer func() { _ = client.Close(context.WithoutCancel(ctx)) }()
	if h.sender, err = client.NewSender(l.Bus.Topic, nil); err != nil {
		return fmt.Errorf("open a sender: %w", err)
	}
	session, err := client.AcceptSessionForSubscription(ctx, l.Bus.Topic, l.Bus.Subscription, hopSession, nil)
	if err != nil {
		return fmt.Errorf("accept the session: %w", err)
	}
	defer func() { _ = session.Close(context.WithoutCancel(ctx)) }()

	l.result.Values = make(map[string]float64)
	l.begin()
	if err := h.oneByOne(ctx, session); err != nil {
		return err
	}
	l.done(h.sent)
	return nil
}

// oneByOne measures each hop separately.
func (h *hops) oneByOne(ctx context.Context, session *azservicebus.SessionReceiver) error {
	times := make(map[string][]time.Duration)
	for over := time.Now().Add(h.For); time.Now().Before(over); {
		n, body, err := h.next()
		if err != nil {
			return err
		}
		last := time.Now()
		hop := func(name string, err error) error {
			now := time.Now()
			if n > 1 { // the first event attaches links
				times[name] = append(times[name], now.Sub(last))
			}
			last = now
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		}
		_, err = h.events.InsertOne(ctx, body)
		if err := hop("insert", err); err != nil {
			return err
		}
		h.stream.Next(ctx)
		if err := hop("stream", h.stream.Err()); err != nil {
			return err
		}
		if err := hop("send", h.send(ctx, n, body)); err != nil {
			return err
		}
		received, err := session.ReceiveMessages(ctx, 1, nil)
		if err == nil && len(received) == 0 {
			err = errNoMessage
		}
		if err := hop("receive", err); err != nil {
			return err
		}
		if err := hop("update", h.update(ctx, received[0].MessageID)); err != nil {
			return err
		}
		for _, m := range received {
			if err := session.CompleteMessage(ctx, m, nil); err != nil {
				return fmt.Errorf("complete: %w", err)
			}
		}
	}
	for name, t := range times {
		p50 := percentile(sorted(t), 0.5)
		h.result.Values[name] = p50
		h.result.Values[valueSum] += p50
	}
	return nil
}

// next makes the next event.
func (h *hops) next() (n int, body bson.Raw, err error) {
	h.sent++
	body, err = bson.Marshal(bson.D{{Key: "_id", Value: h.sent}, {Key: "payload", Value: make([]byte, 300)}})
	if err != nil {
		return 0, nil, fmt.Errorf("encode: %w", err)
	}
	return h.sent, body, nil
}

func (h *hops) send(ctx context.Context, n int, body bson.Raw) error {
	id, session := fmt.Sprint(n), hopSession
	return h.sender.SendMessage(ctx, &azservicebus.Message{Body: body, SessionID: &session, PartitionKey: &session, MessageID: &id}, nil)
}

func (h *hops) update(ctx context.Context, id string) error {
	_, err := h.models.UpdateByID(ctx, id, bson.D{{Key: "$set", Value: bson.D{{Key: "seen", Value: id}}}}, options.UpdateOne().SetUpsert(true))
	return err
}
