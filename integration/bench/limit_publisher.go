package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// sendsPerConnection is how many sends the publisher has in flight on a connection.
const sendsPerConnection = 4

func (l *limitRun) events() *mongo.Collection {
	return l.client.Database(harness.EventsDatabase).Collection(harness.EventsCollection)
}

// sendAll sends the store's events as prepared messages, in batches that are as full as the
// topic allows, in the order of their session keys. It keeps no order between batches and
// saves no checkpoint.
func sendAll(ctx context.Context, l *limitRun) error {
	messages, err := l.messages(ctx)
	if err != nil {
		return err
	}
	var senders []*azservicebus.Sender
	for range l.Connections {
		client, err := azservicebus.NewClientFromConnectionString(l.Bus.ConnectionString, nil)
		if err != nil {
			return fmt.Errorf("connect to the broker: %w", err)
		}
		defer func() { _ = client.Close(context.WithoutCancel(ctx)) }()
		sender, err := client.NewSender(l.Bus.Topic, nil)
		if err != nil {
			return fmt.Errorf("open a sender: %w", err)
		}
		// The first use attaches the link.
		if _, err := sender.NewMessageBatch(ctx, nil); err != nil {
			return fmt.Errorf("attach a sender: %w", err)
		}
		senders = append(senders, sender)
	}
	l.begin()
	group, ctx := errgroup.WithContext(ctx)
	workers := l.Connections * sendsPerConnection
	for i := range workers {
		share := messages[len(messages)*i/workers : len(messages)*(i+1)/workers]
		group.Go(func() error { return sendShare(ctx, senders[i%len(senders)], share) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	l.done(len(messages))
	return nil
}

func sendShare(ctx context.Context, sender *azservicebus.Sender, messages []*azservicebus.AMQPAnnotatedMessage) error {
	for len(messages) > 0 {
		batch, err := sender.NewMessageBatch(ctx, nil)
		if err != nil {
			return fmt.Errorf("make a batch: %w", err)
		}
		n := 0
		for ; n < len(messages); n++ {
			if err := batch.AddAMQPAnnotatedMessage(messages[n], nil); errors.Is(err, azservicebus.ErrMessageTooLarge) && n > 0 {
				break
			} else if err != nil {
				return fmt.Errorf("add a message: %w", err)
			}
		}
		if err := sender.SendMessageBatch(ctx, batch, nil); err != nil {
			return fmt.Errorf("send a batch: %w", err)
		}
		messages = messages[n:]
	}
	return nil
}

// messages returns the publisher's messages of the events, by session key.
func (l *limitRun) messages(ctx context.Context) ([]*azservicebus.AMQPAnnotatedMessage, error) {
	keys := event.NewSessionKeys(event.SessionPerAggregate, 1)
	reader := event.NewReader(event.DefaultFields())
	encoder := event.NewEncoder(event.EncodingJSON, keys)
	cursor, err := l.events().Find(ctx, bson.D{}, options.Find().SetBatchSize(5000).SetLimit(int64(l.Events)))
	if err != nil {
		return nil, fmt.Errorf("read the events: %w", err)
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	var messages []*azservicebus.AMQPAnnotatedMessage
	for cursor.Next(ctx) {
		ev, err := reader.Read(bytes.Clone(cursor.Current))
		if err != nil {
			return nil, err
		}
		message, err := encoder.Encode(&ev, 1)
		if err != nil {
			return nil, err
		}
		messages = append(messages, new(sbus.Annotated).Of(&message))
	}
	slices.SortStableFunc(messages, func(a, b *azservicebus.AMQPAnnotatedMessage) int {
		return cmp.Compare(*a.Properties.GroupID, *b.Properties.GroupID)
	})
	return messages, cursor.Err()
}

// readStream reads the events' change stream into memory.
func readStream(ctx context.Context, l *limitRun) error {
	stream, err := l.events().Watch(ctx, mongo.Pipeline{}, options.ChangeStream().SetStartAtOperationTime(&l.From).SetBatchSize(4096))
	if err != nil {
		return fmt.Errorf("watch the events: %w", err)
	}
	defer stream.Close(context.WithoutCancel(ctx))
	kept := make([]bson.Raw, 0, l.Events)
	for stream.Next(ctx) {
		if len(kept) == 0 {
			l.begin()
		}
		kept = append(kept, bytes.Clone(stream.Current))
		if len(kept) == l.Events {
			l.done(len(kept))
			return nil
		}
	}
	return fmt.Errorf("read %d of %d changes: %w", len(kept), l.Events, stream.Err())
}

// readStore reads the events into memory by the index that a scan uses.
func readStore(ctx context.Context, l *limitRun) error {
	cursor, err := l.events().Find(ctx, bson.D{}, options.Find().SetBatchSize(4096).
		SetSort(bson.D{{Key: "aggregateId", Value: 1}, {Key: "eventId", Value: 1}}))
	if err != nil {
		return fmt.Errorf("read the events: %w", err)
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	kept := make([]bson.Raw, 0, l.Events)
	for cursor.Next(ctx) {
		if len(kept) == 0 {
			l.begin()
		}
		kept = append(kept, bytes.Clone(cursor.Current))
	}
	l.done(len(kept))
	return cursor.Err()
}
