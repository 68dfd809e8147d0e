package drain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// Options configure an [Acceptor]. What is zero and has a default gets it.
type Options struct {
	// Dial makes a connection. Required.
	Dial func() (Connection, error)
	// Handler applies the events. Required. It may be a [Holder].
	Handler Handler
	// Judge decides about messages that are not events; nil dead-letters them immediately.
	Judge Judge
	// Reader reads the events out of messages. Required.
	Reader *event.Reader
	// Sequence is what the handler knows of an aggregate's event ids: strict, the
	// default, where it notices a missing event, or increasing, where it cannot. Then
	// nothing may reach it before its predecessor. A receiver that does not keep the order
	// is asked for one message at a time, a round trip each.
	Sequence event.Sequence
	// Slots is how many sessions are drained at the same time; 128 by default.
	Slots int
	// Connections is over how many AMQP connections the slots spread; 4 by default. The SDK
	// accepts one session after the other on a connection, in about ten round trips each,
	// and needs more.
	Connections int
	// BatchSize bounds the events of one Handle call, and with it the credit given
	// to the broker: a session holds up to six times as many; 256 by default, at most
	// 2048.
	BatchSize int
	// BufferBytes bounds the messages that all sessions together hold before they are
	// handled: those that are here with their real size, and those that the broker was
	// asked for with the size that the mean and the variance of the session's last
	// messages foretell. A message of each session fits in any case. Lanes hold as much
	// once more: messages that are handled, tried again or wait for a predecessor.
	//
	// What the broker was asked for cannot be taken back. At worst every session has
	// asked for BatchSize messages, on account of small ones, and receives as many of
	// the topic's largest; it asks for no more until those are handled. 64 MiB by
	// default.
	BufferBytes int
	// SessionIdle is how long a session has no message before its slot goes on to
	// another session, where some wait; 10 ms by default, and at least three round
	// trips. If no session waits, the session is kept up to SessionHold, because the slot
	// has nothing better to do.
	SessionIdle time.Duration
	// SessionHold is how long an idle session is kept at most; 1 min by default.
	SessionHold time.Duration
	// SessionTenure is how long a busy session is kept at most; 2 min by default. It
	// lets sessions that have waited, and pods that have just started, have a turn.
	SessionTenure time.Duration
	// Hold is how long a delivery waits for its predecessor before it is repaired;
	// 250 ms by default.
	Hold time.Duration
	// GapTimeout is how long repairing is tried before the aggregate is given up as
	// missing an event; 10 s by default.
	GapTimeout time.Duration
	// ParkAfter is for how long a store may fail for an aggregate, while events of others
	// are written, before the aggregate is given up; 1 min by default.
	ParkAfter time.Duration
	// DrainTimeout bounds how long Run goes on after its context has ended; 20 s by
	// default.
	DrainTimeout time.Duration
	// Registerer takes the metrics; nil for none.
	Registerer prometheus.Registerer
	// Logger is silent by default.
	Logger zerolog.Logger
	// Heartbeat gives a slot's place in the liveness probe; nil for none.
	Heartbeat func(slot int) Heartbeat
	// Connected is called at the first sign of a working broker; nil for none.
	Connected func()
	// Pausing says when sessions may be held; nil means always.
	Pausing Pausing
}

// Heartbeat records that a slot makes progress. It must be safe for concurrent use.
type Heartbeat interface {
	Beat()
	Idle()
}

// MaxSilence is the longest time between two beats of a slot whose Handle calls
// return, with room for a slow one.
const MaxSilence = 2 * time.Minute

// Bounds of the SDK and of what makes sense.
const (
	maxBatchSize   = 2048
	maxSlots       = 4096
	maxConnections = 256
)

// Times that are facts about the broker and the SDK rather than choices.
const (
	// acceptWait is how long the broker is asked to wait for a session. It is below
	// the service's own default of about 65 s, and below MaxSilence.
	acceptWait = 30 * time.Second
	// firstAcceptWait is how long it is asked to wait before it has ever answered, so
	// that a projector with nothing to do shows soon that it could.
	firstAcceptWait = time.Second
	// acceptGrace is what accepting may take beyond that: the round trips of a late
	// grant, and the wait behind other accepts of the connection.
	acceptGrace = 15 * time.Second
	// settleTimeout is many round trips, and below 0.8 × 4 s, the shortest sleep of the
	// SDK's retrier before it attaches the session again (internal/utils/retrier.go,
	// calcDelay).
	settleTimeout = 3 * time.Second
	// busyWait is what the service asks for when it throttles ("50009 … wait 2
	// seconds").
	busyWait = 2 * time.Second
	// closeTimeout bounds the wait for a receiver to close; three round trips do it.
	closeTimeout = 5 * time.Second
	// defaultLock is the guess where the broker's clock makes no sense of LockedUntil.
	defaultLock = 10 * time.Second
	// maxLock is the longest lock that Service Bus grants.
	maxLock = 5 * time.Minute
	// maxRenewInterval keeps a lock of the usual minute alive even if this clock is
	// far behind the broker's, which makes the lock look longer than it is.
	maxRenewInterval = 30 * time.Second
)

func (o Options) withDefaults() Options {
	o.Sequence = cmp.Or(o.Sequence, event.SequenceStrict)
	o.Slots = cmp.Or(o.Slots, 128)
	o.Connections = min(cmp.Or(o.Connections, 4), o.Slots)
	o.BatchSize = cmp.Or(o.BatchSize, 256)
	o.BufferBytes = cmp.Or(o.BufferBytes, 64<<20)
	o.SessionIdle = cmp.Or(o.SessionIdle, 10*time.Millisecond)
	o.SessionHold = cmp.Or(o.SessionHold, time.Minute)
	o.SessionTenure = cmp.Or(o.SessionTenure, 2*time.Minute)
	o.Hold = cmp.Or(o.Hold, 250*time.Millisecond)
	o.GapTimeout = cmp.Or(o.GapTimeout, 10*time.Second)
	o.ParkAfter = cmp.Or(o.ParkAfter, time.Minute)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, 20*time.Second)
	if o.Pausing == nil {
		o.Pausing = never{}
	}
	return o
}

func (o Options) validate() error {
	var problems []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	check(o.Dial != nil, "no Dial")
	check(o.Handler != nil, "no Handler")
	check(o.Reader != nil, "no Reader")
	check(o.Sequence == event.SequenceStrict || o.Sequence == event.SequenceIncreasing, "a sequence %q", o.Sequence)
	check(o.Slots > 0 && o.Slots <= maxSlots, "%d slots, allowed are 1 to %d", o.Slots, maxSlots)
	check(o.Connections > 0 && o.Connections <= maxConnections, "%d connections, allowed are 1 to %d", o.Connections, maxConnections)
	check(o.BatchSize > 0 && o.BatchSize <= maxBatchSize, "batches of %d, allowed are 1 to %d", o.BatchSize, maxBatchSize)
	check(o.BufferBytes > 0, "a buffer of %d bytes", o.BufferBytes)
	check(o.SessionIdle > 0 && o.SessionHold >= o.SessionIdle, "sessions idle %s and kept %s: the second must be at least the first", o.SessionIdle, o.SessionHold)
	check(o.SessionTenure > 0, "a tenure of %s", o.SessionTenure)
	check(o.Hold > 0 && o.GapTimeout >= o.Hold, "gaps held %s and repaired for %s: the second must be at least the first", o.Hold, o.GapTimeout)
	check(o.ParkAfter > 0, "aggregates given up after %s", o.ParkAfter)
	check(o.DrainTimeout > 0, "a drain timeout of %s", o.DrainTimeout)
	return errors.Join(problems...)
}

// Pausing says when sessions may be held.
type Pausing interface {
	// Working waits until they may, and gives a context that ends with ctx, or when they may
	// no longer. The caller calls release when it holds none any more. The error is the
	// cause of the end of ctx.
	Working(ctx context.Context) (working context.Context, release func(), err error)
}

// never is a pausing that never pauses.
type never struct{}

func (never) Working(ctx context.Context) (context.Context, func(), error) {
	return ctx, func() {}, nil
}
