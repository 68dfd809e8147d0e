package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

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

	mu     sync.Mutex
	ticket uint64
	// records are those of the events in flight that are in the quarantine, by their tickets.
	records map[uint64]quarantine.Record
	// sent counts the events that the topic has taken, and healed are the records of these.
	sent   int64
	healed []quarantine.Record
	unsent []unsent
}

// newRepublisher makes a republisher that sends at most the given rate.
func newRepublisher(connect publish.Connect, o Options, epoch int64, limit publishRate) *republisher {
	c := o.Config
	r := &republisher{limiter: limit.limiter(), records: make(map[uint64]quarantine.Record)}
	r.dispatcher = publish.New(publish.Options{
		Connect:    connect,
		Encoder:    c.Publish.Encoder(),
		Epoch:      epoch,
		Acked:      r.acked,
		Quarantine: r.refused,
		ClaimCheck: c.Publish.ClaimCheck,
		Batching:   publish.Batching(c.Publish.Batching),
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
	return r
}

// run publishes the events that each passes on, with their records in the quarantine, and waits
// for all of them.
func (r *republisher) run(ctx context.Context, config sbus.Config, each func(context.Context, func(context.Context, event.Event, *quarantine.Record) error) error) error {
	var ended error
	end := poll.Beside(ctx, func(ctx context.Context) { ended = r.dispatcher.Run(ctx) })
	err := each(ctx, r.submit)
	if err == nil {
		err = r.dispatcher.Drain(ctx)
	}
	end()
	if ended != nil && !errors.Is(ended, context.Canceled) {
		err = publish.Explain(ended, config)
	}
	return err
}

// submit passes an event to the dispatcher when the rate allows it.
func (r *republisher) submit(ctx context.Context, ev event.Event, record *quarantine.Record) error {
	if err := r.limiter.Wait(ctx); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("wait for the rate: %w", err)
	}
	r.mu.Lock()
	r.ticket++
	ticket := r.ticket
	if record != nil {
		r.records[ticket] = *record
	}
	r.mu.Unlock()
	return r.dispatcher.Submit(ctx, publish.Item{Event: ev, Ticket: ticket})
}

// refused notes an event that the topic refuses. The dispatcher acknowledges the event, too.
func (r *republisher) refused(_ context.Context, item *publish.Item, cause error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent--
	delete(r.records, item.Ticket)
	r.unsent = append(r.unsent, unsent{
		Document: quarantine.DocumentText(item.Event.Document.Lookup("_id")), AggregateID: item.Event.AggregateID,
		Why: fmt.Sprintf("event %d: %v", item.Event.EventID, cause),
	})
	return nil
}

func (r *republisher) acked(tickets []uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent += int64(len(tickets))
	for _, ticket := range tickets {
		if record, found := r.records[ticket]; found {
			r.healed = append(r.healed, record)
			delete(r.records, ticket)
		}
	}
}
