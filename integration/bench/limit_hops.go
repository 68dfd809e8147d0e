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

	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/pkg/sbus/sessions"
	"github.com/penstock-cdc/penstock/pkg/secret"
)

// hopSession is the session of the hops' messages if it is already held.
const hopSession = "hops"

// Values of limitHops beside those of the hops, in ms.
const (
	// valueSum is the sum of the hops, each of which begins when the one before it has
	// ended.
	valueSum = "sum"
	// valueHeld is the time from an insert to the update with as much overlap as possible.
	// The broker has credit for the message before it arrives, and nothing waits for the
	// acknowledgement of the send. The session is already held.
	valueHeld = "held"
	// valueAccepted is the same for a new session, for which an accept already waits.
	valueAccepted = "accepted"
)

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
// Each of the three ways of measuring gets a third of the time.
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
	if err := h.overlapping(ctx, valueHeld, func(context.Context) (receiver, error) {
		return receiver{hopSession, session, func() error { return nil }}, nil
	}); err != nil {
		return err
	}
	namespace, err := sbus.Open(sbus.Config{ConnectionString: secret.Text(l.Bus.ConnectionString), Topic: l.Bus.Topic})
	if err != nil {
		return err
	}
	connection := sessions.New(sessions.Options{Namespace: namespace, Topic: l.Bus.Topic, Subscription: l.Bus.Subscription})
	defer func() { _ = connection.Close(context.WithoutCancel(ctx)) }()
	if err := h.overlapping(ctx, valueAccepted, func(ctx context.Context) (receiver, error) {
		s, err := connection.Accept(ctx, time.Minute)
		if err != nil {
			return receiver{}, fmt.Errorf("accept a session: %w", err)
		}
		return receiver{s.SessionID(), s, func() error { return s.Close(ctx) }}, nil
	}); err != nil {
		return err
	}
	l.done(h.sent)
	return nil
}

// oneByOne measures each hop separately.
func (h *hops) oneByOne(ctx context.Context, session *azservicebus.SessionReceiver) error {
	times := make(map[string][]time.Duration)
	for over := time.Now().Add(h.For / 3); time.Now().Before(over); {
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
		if err := hop("send", h.send(ctx, hopSession, n, body)); err != nil {
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

// receiver is a session that is held.
type receiver struct {
	id string
	messages
	release func() error
}

// messages is the common part of both receivers of sessions.
type messages interface {
	ReceiveMessages(ctx context.Context, limit int, o *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
	CompleteMessage(ctx context.Context, m *azservicebus.ReceivedMessage, o *azservicebus.CompleteMessageOptions) error
}

// arrival is an event that was received and written.
type arrival struct {
	receiver
	messages []*azservicebus.ReceivedMessage
	at       time.Time
	err      error
}

// overlapping measures from the insert to the update, with a receiver that waits for the
// message. hold returns the receiver, either immediately or when a message has arrived.
func (h *hops) overlapping(ctx context.Context, value string, hold func(context.Context) (receiver, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	arrivals, next := make(chan arrival), make(chan struct{}, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.receive(ctx, hold, arrivals, next)
	}()
	defer func() { cancel(); <-ended }()
	var times []time.Duration
	for over := time.Now().Add(h.For / 3); time.Now().Before(over); {
		n, body, err := h.next()
		if err != nil {
			return err
		}
		begun := time.Now()
		if _, err := h.events.InsertOne(ctx, body); err != nil {
			return fmt.Errorf("insert: %w", err)
		}
		if h.stream.Next(ctx); h.stream.Err() != nil {
			return fmt.Errorf("read the change stream: %w", h.stream.Err())
		}
		session := hopSession
		if value == valueAccepted {
			session = fmt.Sprintf("%s-%d", hopSession, n)
		}
		if err := h.send(ctx, session, n, body); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		a := <-arrivals
		if a.err != nil {
			return a.err
		}
		// The broker has the next accept, or credit, before the next message.
		next <- struct{}{}
		for _, m := range a.messages {
			if err := a.CompleteMessage(ctx, m, nil); err != nil {
				return fmt.Errorf("complete: %w", err)
			}
		}
		times = append(times, a.at.Sub(begun))
		if err := a.release(); err != nil {
			return fmt.Errorf("release session %s: %w", a.id, err)
		}
	}
	h.result.Values[value] = percentile(sorted(times), 0.5)
	return nil
}

// receive receives and writes one event after the other until ctx ends. It waits for a
// token from next before each of them.
func (h *hops) receive(ctx context.Context, hold func(context.Context) (receiver, error), arrivals chan<- arrival, next <-chan struct{}) {
	for ctx.Err() == nil {
		a := arrival{}
		if a.receiver, a.err = hold(ctx); a.err == nil {
			a.messages, a.err = a.ReceiveMessages(ctx, 1, nil)
		}
		if a.err == nil && len(a.messages) == 0 {
			a.err = errNoMessage
		}
		if a.err == nil {
			a.err = h.update(ctx, a.messages[0].MessageID)
		}
		a.at = time.Now()
		select {
		case arrivals <- a:
		case <-ctx.Done():
			return
		}
		select {
		case <-next:
		case <-ctx.Done():
			return
		}
	}
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

func (h *hops) send(ctx context.Context, session string, n int, body bson.Raw) error {
	id := fmt.Sprint(n)
	return h.sender.SendMessage(ctx, &azservicebus.Message{Body: body, SessionID: &session, PartitionKey: &session, MessageID: &id}, nil)
}

func (h *hops) update(ctx context.Context, id string) error {
	_, err := h.models.UpdateByID(ctx, id, bson.D{{Key: "$set", Value: bson.D{{Key: "seen", Value: id}}}}, options.UpdateOne().SetUpsert(true))
	return err
}
