package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

// errAllDone ends the goroutines of a limit when all events are done.
var errAllDone = errors.New("all is done")

// clients opens connections of the SDK.
func (l *limitRun) clients() ([]*azservicebus.Client, func(), error) {
	var clients []*azservicebus.Client
	end := func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		for _, c := range clients {
			_ = c.Close(ctx)
		}
	}
	for range l.Connections {
		c, err := azservicebus.NewClientFromConnectionString(l.Bus.ConnectionString, nil)
		if err != nil {
			end()
			return nil, nil, fmt.Errorf("connect to the broker: %w", err)
		}
		clients = append(clients, c)
	}
	return clients, end, nil
}

// receiveAll receives the messages of a few long sessions with the SDK, and completes each
// message.
func receiveAll(ctx context.Context, l *limitRun) error {
	clients, end, err := l.clients()
	if err != nil {
		return err
	}
	defer end()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(errAllDone)
	group, ctx := errgroup.WithContext(ctx)
	var once sync.Once
	var completed atomic.Int64
	for i := range l.Slots {
		group.Go(func() error {
			session, err := clients[i%len(clients)].AcceptNextSessionForSubscription(ctx, l.Bus.Topic, l.Bus.Subscription, nil)
			if err != nil {
				return fmt.Errorf("accept a session: %w", err)
			}
			for {
				messages, err := session.ReceiveMessages(ctx, 256, nil)
				if err != nil {
					return fmt.Errorf("receive: %w", err)
				}
				once.Do(l.begin)
				if err := completeAll(ctx, session, messages); err != nil {
					return err
				}
				if completed.Add(int64(len(messages))) >= int64(l.Events) {
					l.done(l.Events)
					stop(errAllDone)
				}
			}
		})
	}
	if err := group.Wait(); err != nil && !errors.Is(context.Cause(ctx), errAllDone) && completed.Load() < int64(l.Events) {
		return err
	}
	return nil
}

func completeAll(ctx context.Context, session *azservicebus.SessionReceiver, messages []*azservicebus.ReceivedMessage) error {
	var group errgroup.Group
	for _, m := range messages {
		group.Go(func() error { return session.CompleteMessage(ctx, m, nil) })
	}
	return group.Wait()
}

const (
	// writers is the number of goroutines that write the final read models, and writeBatch
	// the number of documents in each write.
	writers    = 4
	writeBatch = 500
)

// writeAll copies the final read models of the projector to other collections by unordered
// bulk writes.
func writeAll(ctx context.Context, l *limitRun) error {
	models := l.client.Database(harness.ReadModelsDatabase)
	type bulk struct {
		into   *mongo.Collection
		models []mongo.WriteModel
	}
	var bulks []bulk
	for _, name := range shop.New(1, 1).Collections {
		cursor, err := models.Collection(name).Find(ctx, bson.D{}, options.Find().SetBatchSize(5000))
		if err != nil {
			return fmt.Errorf("read the read models: %w", err)
		}
		var documents []bson.Raw
		if err := cursor.All(ctx, &documents); err != nil {
			return fmt.Errorf("read the read models: %w", err)
		}
		into := l.client.Database("limit").Collection(name)
		for len(documents) > 0 {
			n := min(writeBatch, len(documents))
			b := bulk{into: into}
			for _, d := range documents[:n] {
				b.models = append(b.models, mongo.NewReplaceOneModel().SetFilter(bson.D{{Key: "_id", Value: d.Lookup("_id")}}).SetReplacement(d).SetUpsert(true))
			}
			bulks, documents = append(bulks, b), documents[n:]
		}
	}
	l.begin()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for _, b := range bulks {
		group.Go(func() error {
			_, err := b.into.BulkWrite(ctx, b.models, options.BulkWrite().SetOrdered(false))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("write the read models: %w", err)
	}
	l.done(l.Events)
	return nil
}
