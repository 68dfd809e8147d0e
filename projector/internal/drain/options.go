package drain

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/event"
)

// Options configure an [Acceptor]. All are required, except Registerer and Logger.
type Options struct {
	// Dial makes a connection.
	Dial func() (Connection, error)
	// Handler applies the events.
	Handler Handler
	// Reader reads the events in messages.
	Reader *event.Reader
	// Slots is how many sessions are drained concurrently.
	Slots int
	// Connections is the number of AMQP connections that the slots share, one for each at
	// most. The SDK needs many: on a connection it accepts one session after the other, in
	// about ten round trips each.
	Connections int
	// BatchSize bounds the events of one Handle call, and with it the credit given
	// to the broker: a session holds up to six times as many.
	BatchSize int
	// BufferBytes bounds the messages that all sessions together hold before they are
	// handled. Each slot has an equal share. Messages in memory count with their size.
	// Messages that the broker may still send count with a forecast from the mean and the
	// variance of the session's last messages. One message of each session always fits.
	// Each session holds the same amount again: messages that are being handled or wait for a store.
	//
	// Credit cannot be withdrawn. At worst every session has requested BatchSize messages
	// because they were small, and receives as many of the largest size. It requests no
	// more until those are handled.
	BufferBytes int
	// SessionIdle is how long a session may be without a message before its slot changes to
	// another session, if one waits, and at least three round trips. If no session waits,
	// the slot keeps the session for up to SessionHold.
	SessionIdle time.Duration
	// SessionHold is how long an idle session is kept at most.
	SessionHold time.Duration
	// SessionTenure is how long a busy session is kept at most. It gives a turn to sessions
	// that wait, and to pods that have just started.
	SessionTenure time.Duration
	// Behind is how long a message may wait in the subscription before [Acceptor.Waited] counts
	// it as above the limit.
	Behind time.Duration
	// DrainTimeout bounds how long Run continues after its context has ended.
	DrainTimeout time.Duration
	// Registerer takes the metrics; nil for none.
	Registerer prometheus.Registerer
	// Logger is silent by default.
	Logger zerolog.Logger
	// Misread reports that a message breaks the contract only because a setting is wrong. Then it
	// stays in the subscription, and its session ends.
	Misread func(ctx context.Context, invalid error) bool
	// Heartbeat returns the heartbeat of a slot for the liveness probe.
	Heartbeat func(slot int) Heartbeat
	// Connected is called at the first sign of a working broker.
	Connected func()
}

// Heartbeat records that a slot makes progress. It must be safe for concurrent use.
type Heartbeat interface {
	Beat()
	Idle()
}

// MaxSilence is the longest time between two heartbeats of a slot whose Handle calls
// return, including slow ones.
const MaxSilence = 2 * time.Minute

// Times that follow from the broker and the SDK.
const (
	// acceptWait is how long the broker is asked to wait for a session. It is below
	// the service's own default of about 65 s, and below MaxSilence.
	acceptWait = 30 * time.Second
	// firstAcceptWait is how long the broker is asked to wait before it has answered for
	// the first time, and after it has failed, so that an idle projector soon shows that it
	// is connected.
	firstAcceptWait = time.Second
	// acceptGrace is how much longer than that an accept may take: the round trips of a
	// late grant, and the wait behind other accepts of the connection.
	acceptGrace = 15 * time.Second
	// settleTimeout is many round trips, and shorter than 0.8 × 4 s, the shortest sleep of
	// the SDK's retrier before it attaches the session again (internal/utils/retrier.go,
	// calcDelay).
	settleTimeout = 3 * time.Second
	// busyWait is the wait that the service demands when it throttles ("50009 … wait 2
	// seconds").
	busyWait = 2 * time.Second
	// closeTimeout bounds closing a receiver, which takes three round trips.
	closeTimeout = 5 * time.Second
	// defaultLock is assumed if LockedUntil cannot be right by this process's clock.
	defaultLock = 10 * time.Second
	// maxLock is the longest lock that Service Bus grants.
	maxLock = 5 * time.Minute
	// maxRenewInterval keeps a lock of the usual minute alive even if this clock is far
	// behind the broker's, so that the lock seems to last longer than it does.
	maxRenewInterval = 30 * time.Second
)

// share is the part of BufferBytes that a session has.
func (o *Options) share() int { return max(o.BufferBytes/o.Slots, 1) }
