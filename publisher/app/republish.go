package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
	"github.com/penstock-cdc/penstock/publisher/internal/quarantine"
)

// refusedAfter is how long the topic may refuse a command before the command ends.
const refusedAfter = 2 * time.Minute

// republisher publishes events for a command, beside the leader. It can only repeat an
// event or send one late, and it never moves the checkpoint. So it needs no lease.
type republisher struct {
	dispatcher *publish.Dispatcher
	limiter    *rate.Limiter
	done       func(ticket uint64, refused *unsent)

	mu     sync.Mutex
	failed map[uint64]*unsent
	sent   int64
}

// newRepublisher prepares the connection to the topic. It sends at most the given rate, and
// calls done for each event with its ticket, and with the reason if the topic refuses the event.
// Goroutines call done concurrently.
func newRepublisher(ctx context.Context, o Options, epoch int64, limit publishRate, done func(ticket uint64, refused *unsent)) (*republisher, error) {
	c := o.Config
	namespace, err := sbus.Open(c.ServiceBus)
	if err != nil {
		return nil, err
	}
	policy, err := batching(ctx, c.Publish.Batching, func(ctx context.Context) (admin.TopicProperties, error) {
		return namespace.Topic(ctx, c.ServiceBus.Topic)
	}, o.Logger)
	if err != nil {
		return nil, err
	}
	return republishBy(publish.ServiceBus(namespace, c.ServiceBus.Topic), policy, o, epoch, limit, done)
}

// republishBy is newRepublisher for connections that connect opens.
func republishBy(connect publish.Connect, policy publish.Batching, o Options, epoch int64, limit publishRate, done func(ticket uint64, refused *unsent)) (*republisher, error) {
	c := o.Config
	sessions, err := event.NewSessionKeys(event.SessionMode(c.Publish.SessionMode), c.Publish.SessionBuckets)
	if err != nil {
		return nil, err
	}
	r := &republisher{limiter: limit.limiter(), failed: make(map[uint64]*unsent), done: done}
	r.dispatcher = publish.New(publish.Options{
		Connect:    connect,
		Encoder:    c.Publish.Encoder(sessions),
		SessionKey: sessions.Key,
		Epoch:      epoch,
		Acked:      r.acked,
		Quarantine: r.refused,
		ClaimCheck: c.Publish.ClaimCheck,
		Batching:   policy,
		Limits: publish.Limits{
			Connections:       1,
			MaxInflightEvents: c.Publish.MaxInflightEvents,
			MaxInflightBytes:  c.Publish.MaxInflightBytes,
			MaxAttempts:       c.Refusals.MaxAttempts,
		},
		Final: true,
		Availability: publish.NewAvailability(publish.AvailabilityOptions{
			FatalAfter: refusedAfter,
			Explain:    func(err error) error { return publish.Explain(err, c.ServiceBus) },
			Logger:     o.Logger,
		}),
		Logger: o.Logger,
	})
	return r, nil
}

// run publishes the events that feed submits, and waits for all of them. It returns how
// many events the topic has taken.
func (r *republisher) run(ctx context.Context, config sbus.Config, feed func(ctx context.Context, submit func(context.Context, publish.Item) error) error) (int64, error) {
	var ended error
	end := poll.Beside(ctx, func(ctx context.Context) { ended = r.dispatcher.Run(ctx) })
	err := feed(ctx, r.submit)
	if err == nil {
		err = r.dispatcher.Drain(ctx)
	}
	end()
	if ended != nil && !errors.Is(ended, context.Canceled) {
		err = publish.Explain(ended, config)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent, err
}

// submit passes an event to the dispatcher when the rate allows it.
func (r *republisher) submit(ctx context.Context, item publish.Item) error {
	if err := r.limiter.Wait(ctx); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("wait for the rate: %w", err)
	}
	return r.dispatcher.Submit(ctx, item)
}

func (r *republisher) refused(_ context.Context, item *publish.Item, cause error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed[item.Ticket] = &unsent{
		Document: quarantine.DocumentText(item.Event.Document.Lookup("_id")), AggregateID: item.Event.AggregateID,
		Why: fmt.Sprintf("event %d: %v", item.Event.EventID, cause),
	}
	return nil
}

func (r *republisher) acked(tickets []uint64) {
	for _, ticket := range tickets {
		r.mu.Lock()
		refused := r.failed[ticket]
		delete(r.failed, ticket)
		if refused == nil {
			r.sent++
		}
		r.mu.Unlock()
		r.done(ticket, refused)
	}
}
