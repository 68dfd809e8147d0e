package publish

import (
	"cmp"
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/tracing"
)

// maxBatchEvents is the largest number of messages in one batch of Service Bus
// (Azure/azure-service-bus#397).
const maxBatchEvents = 4500

// closeTimeout is how long closing a connection may take.
const closeTimeout = 5 * time.Second

// Item is one event to be published.
type Item struct {
	// Event and the bytes that it aliases must not change until its ticket is acknowledged
	// or Run has returned.
	Event event.Event
	// Ticket is passed to Acked. The dispatcher does not interpret it.
	Ticket uint64
}

// Encoder encodes events as messages. It must be safe for concurrent use.
type Encoder interface {
	// SessionKey gives the session key of an aggregate's messages.
	SessionKey(aggregateID string) string
	// Size gives the length of the body that Encode makes, without making it.
	Size(ev *event.Event) (int, error)
	Encode(ev *event.Event, epoch int64) (event.Message, error)
	EncodeClaimCheck(ev *event.Event, epoch int64) (event.Message, error)
}

var _ Encoder = (*event.Encoder)(nil)

// Options configure a [Dispatcher]. Connect, Encoder, Acked and Quarantine are
// required. Every other zero value means the default named with it.
type Options struct {
	// Connect opens one connection to the topic.
	Connect Connect
	// Encoder encodes the messages, in the workers.
	Encoder Encoder
	// Epoch is the term's, and goes into every message.
	Epoch int64

	// Acked receives the tickets whose events are on the topic or in the quarantine. It
	// must be safe for concurrent use and must not keep the slice.
	Acked func(tickets []uint64)
	// Quarantine stores an event that cannot be published, and the reason: a
	// [*event.ContractError] if the event itself is the reason. If it returns nil, the
	// ticket is acknowledged. Its error ends the term.
	Quarantine func(ctx context.Context, item *Item, cause error) error
	// ClaimCheck sends an event that is too large for the topic without its payload, which
	// the projector reads from the event store. Without ClaimCheck such an event is
	// quarantined.
	ClaimCheck bool

	// Batching is the policy; default and auto: mixed.
	Batching Batching
	Limits
	// Closing gives the context that bounds the closing of one connection. Default 5 s.
	Closing func() (context.Context, context.CancelFunc)

	// Beat is called about every second while the dispatcher makes progress or has nothing
	// to do. An outage of the broker does not stop the calls, because a restart would not
	// help. A call to the broker that does not return stops them.
	Beat func()
	// Final counts the refusals of an event also while the topic accepts no others. It is for
	// commands, which report the event instead of waiting.
	Final bool
	// Availability decides how long a topic may refuse everything. All terms of a process
	// share one. Default one that ends Run at the first such refusal.
	Availability *Availability

	// Tracer makes the spans; nil makes none.
	Tracer *tracing.Messages
	// Metrics are not exported by default. All terms of a process share one set.
	Metrics *Metrics
	// Logger is silent by default.
	Logger zerolog.Logger
}

// Limits bound what a [Dispatcher] uses. Every zero value means the default named with it.
type Limits struct {
	// Connections is how many connections are kept open. Default 4.
	Connections int
	// MaxInflightEvents bounds the events between Submit and Acked. They are most of the
	// heap. Default 8192: more than 100,000 events/s where the broker answers in 80 ms.
	MaxInflightEvents int
	// MaxInflightBytes bounds the size of these events; a single larger event passes alone.
	// In addition, it bounds the bodies of the messages that are being sent, of which the
	// SDK makes up to two copies. Default 64 MiB.
	MaxInflightBytes int64
	// MaxBatchEvents bounds the events of a batch, up to 4,500. Default
	// 1000.
	MaxBatchEvents int
	// MaxSends bounds the unanswered sends over all connections. Default 512 if a batch has
	// one key or one event, and 4 per connection for mixed batches, because fewer sends
	// make fuller and cheaper batches. The same number again is allowed for events that
	// failed before or whose answer is late.
	MaxSends int
	// SendTimeout bounds one send, and one attempt to connect. After it the outcome is
	// unknown and the connection is replaced. Default 30 s.
	SendTimeout time.Duration
	// MaxAttempts is how many times the topic may refuse one event explicitly, while it
	// accepts others, before the event is quarantined. Default 5.
	MaxAttempts int
}

// withDefaults fills in the defaults.
func (o Options) withDefaults() Options {
	if o.Batching == "" || o.Batching == BatchingAuto {
		o.Batching = BatchingMixed
	}
	o.Connections = cmp.Or(o.Connections, 4)
	o.MaxInflightEvents = cmp.Or(o.MaxInflightEvents, 8192)
	o.MaxInflightBytes = cmp.Or(o.MaxInflightBytes, 64<<20)
	o.MaxBatchEvents = cmp.Or(o.MaxBatchEvents, 1000)
	o.SendTimeout = cmp.Or(o.SendTimeout, 30*time.Second)
	o.MaxAttempts = cmp.Or(o.MaxAttempts, 5)
	if o.Closing == nil {
		o.Closing = func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), closeTimeout)
		}
	}
	if o.Beat == nil {
		o.Beat = func() {}
	}
	if o.Availability == nil {
		o.Availability = NewAvailability(AvailabilityOptions{})
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	return o
}

// sends bounds the unanswered sends under a policy.
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
