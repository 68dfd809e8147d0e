package publish

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/breaker"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/tracing"
)

// MaxBatchEvents is the most messages that Service Bus takes in one batch
// (Azure/azure-service-bus#397).
const MaxBatchEvents = 4500

// closeTimeout is how long closing a connection may take.
const closeTimeout = 5 * time.Second

// Item is one event on its way to the topic.
type Item struct {
	// Event must stay unchanged, with the bytes that it aliases, until its ticket is
	// acknowledged or Run has returned.
	Event event.Event
	// Ticket is handed back to Acked and means nothing here.
	Ticket uint64
	// Size is what the event counts against MaxInflightBytes; 0 means the length of
	// its document.
	Size int
}

// Encoder makes messages of events. It is called by many goroutines at once.
type Encoder interface {
	Encode(ev *event.Event, epoch int64) (event.Message, error)
	EncodeClaimCheck(ev *event.Event, epoch int64) (event.Message, error)
}

var _ Encoder = (*event.Encoder)(nil)

// Options make a [Dispatcher]. Connect, Encoder, SessionKey, Acked and Quarantine
// are required, and every other zero value means the default named with it.
type Options struct {
	// Connect opens one connection to the topic.
	Connect Connect
	// Encoder makes the messages, in the workers.
	Encoder Encoder
	// SessionKey gives the session key of an aggregate; it must be the one that
	// Encoder puts into the messages ([event.SessionKeys.Key]). It is called by
	// Submit.
	SessionKey func(aggregateID string) string
	// Epoch is the term's, and goes into every message.
	Epoch int64

	// Acked is told the tickets whose events the topic has, or the quarantine. It is
	// called by many goroutines at once and must not keep the slice.
	Acked func(tickets []uint64)
	// Quarantine stores an event that cannot be published, and why: a
	// [*event.ContractError] where the event itself is the reason. Once it returns
	// nil the ticket is acknowledged; its error ends the term.
	Quarantine func(ctx context.Context, item *Item, cause error) error
	// ClaimCheck sends an event that is too large for the topic without its payload,
	// for the projector to read it in the store; otherwise it is quarantined.
	ClaimCheck bool

	// Batching is the policy; default and auto: mixed ([Batching.Resolve]).
	Batching Batching
	// Connections are kept open, each a Connect of its own. Default 4.
	Connections int
	// MaxInflightEvents bounds the events between Submit and Acked. They are most of the
	// heap. Default 8192: more than 100,000 events/s where the broker answers in 80 ms.
	MaxInflightEvents int
	// MaxInflightBytes bounds their size; a single larger event passes alone.
	// Encoded, an event of a batch that is being sent takes about three times its
	// size in addition. Default 64 MiB.
	MaxInflightBytes int64
	// MaxBatchEvents bounds the events of a batch, up to [MaxBatchEvents]. Default
	// 1000.
	MaxBatchEvents int
	// MaxSends bounds the unanswered sends over all connections. Default 512 for
	// one key or event at a time; with mixed batches 4 per connection, since fewer
	// sends make fuller and cheaper batches. As many again may be under way of events
	// that failed before or whose answer is slow to come.
	MaxSends int
	// SendTimeout bounds one send, and opening one connection. After it the outcome
	// is unknown and the connection is replaced. Default 30 s.
	SendTimeout time.Duration
	// Closing gives the context under which a connection is closed: the time that is
	// left for it. Default: 5 s for each.
	Closing func() (context.Context, context.CancelFunc)

	// Beat is called about every second while the dispatcher makes progress or has
	// nothing to do: an outage of the broker is no reason to restart. It is no longer
	// called once a call to the broker does not return.
	Beat func()
	// MaxAttempts is how many times the topic may refuse one event, while it accepts
	// others, before the event is quarantined. Default 5.
	MaxAttempts int
	// GiveUpAfter is how long an event must have failed if the topic does not say that
	// it refuses the event: it fails for an unknown reason, or is not answered. Default
	// 2 min.
	GiveUpAfter time.Duration
	// Breaker bounds the events that are quarantined for being refused; beyond it Run
	// ends with [ErrRefusals]. A process has one. Default one that allows 10, or 5 % of
	// the last 1000 events.
	Breaker *breaker.Breaker
	// Availability says how long a topic may refuse everything. A process has one.
	// Default one that ends Run at the first such refusal.
	Availability *Availability

	// Tracer makes the spans; nil makes none.
	Tracer *tracing.Publisher
	// Metrics default to a set that nobody looks at. A process has one set, whatever
	// the number of terms.
	Metrics *Metrics
	// Logger defaults to none.
	Logger zerolog.Logger
}

// withDefaults fills in the defaults.
func (o Options) withDefaults() Options {
	o.Batching = o.Batching.Resolve(nil)
	setDefault(&o.Connections, 4)
	setDefault(&o.MaxInflightEvents, 8192)
	setDefault(&o.MaxInflightBytes, 64<<20)
	setDefault(&o.MaxBatchEvents, 1000)
	setDefault(&o.SendTimeout, 30*time.Second)
	if o.Closing == nil {
		o.Closing = func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), closeTimeout)
		}
	}
	if o.Beat == nil {
		o.Beat = func() {}
	}
	setDefault(&o.MaxAttempts, 5)
	setDefault(&o.GiveUpAfter, 2*time.Minute)
	if o.Breaker == nil {
		o.Breaker = breaker.New(breaker.Limit{Window: 1000, Share: 0.05, Minimum: 10})
	}
	if o.Availability == nil {
		o.Availability = NewAvailability(AvailabilityOptions{})
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	return o
}

func setDefault[T int | int64 | time.Duration](value *T, to T) {
	if *value == 0 {
		*value = to
	}
}

// validate names every problem at once; o has its defaults.
func (o Options) validate() error {
	var problems []error
	require := func(ok bool, problem string) {
		if !ok {
			problems = append(problems, errors.New(problem))
		}
	}
	require(o.Connect != nil, "no Connect")
	require(o.Encoder != nil, "no Encoder")
	require(o.SessionKey != nil, "no SessionKey")
	require(o.Acked != nil, "no Acked")
	require(o.Quarantine != nil, "no Quarantine")
	if _, err := ParseBatching(string(o.Batching)); err != nil {
		problems = append(problems, err)
	}
	require(o.Connections > 0, "no connections")
	require(o.MaxInflightEvents > 0, "no events may be in flight")
	require(o.MaxInflightBytes > 0, "no bytes may be in flight")
	require(o.MaxSends >= 0, "MaxSends is negative")
	require(o.SendTimeout > 0, "SendTimeout is negative")
	require(o.MaxAttempts > 0, "MaxAttempts is negative")
	require(o.GiveUpAfter > 0, "GiveUpAfter is negative")
	if o.MaxBatchEvents < 1 || o.MaxBatchEvents > MaxBatchEvents {
		problems = append(problems, fmt.Errorf("MaxBatchEvents is %d, not between 1 and %d", o.MaxBatchEvents, MaxBatchEvents))
	}
	return errors.Join(problems...)
}

// sends is how many sends may be unanswered under a policy.
func (o Options) sends(policy Batching) int {
	switch {
	case o.MaxSends > 0:
		return o.MaxSends
	case policy == BatchingMixed:
		return 4 * o.Connections
	default:
		return 512
	}
}
