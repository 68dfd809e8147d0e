package leader

import (
	"time"

	"github.com/google/uuid"
)

// pollsPerRetry is how often a candidate reads the lock in the time in which a leader
// renews it once. Reads are cheap, and a handover waits for one.
const pollsPerRetry = 4

// Config sets the times of a term. A leader that cannot reach the lock store, counted from
// the start of its last successful renewal,
//
//	begins to stop   after RenewDeadline + Margin,
//	has stopped      before LeaseDuration, or its process must exit,
//	is replaced      after LeaseDuration at the earliest.
//
// Make it with [NewConfig]. The service's configuration checks the durations.
type Config struct {
	// LeaseDuration is how long a candidate waits without seeing a renewal before it takes
	// the lock. It must be whole seconds, because the Lease stores no fractions. All
	// candidates should use the same value.
	LeaseDuration time.Duration
	// RenewDeadline is how long a leader tries to renew before it gives up.
	RenewDeadline time.Duration
	// RetryPeriod is the time between two renewals.
	RetryPeriod time.Duration
	// PollPeriod is the time between two attempts of a candidate to take the lock, plus a
	// random part of up to 1.2 times as much. It is also the time between two attempts to
	// renew after one has failed. A handover takes that long, and a takeover takes
	// LeaseDuration in addition.
	PollPeriod time.Duration
	// Margin is how much longer than RenewDeadline a leader trusts its last renewal. The
	// rest of LeaseDuration is the time in which work must stop after a loss.
	Margin time.Duration
	// StopTimeout is how long work may drain after the process was asked to stop. The lease
	// is still renewed meanwhile.
	StopTimeout time.Duration
	// RequestTimeout bounds each request to the lock store, so that a request that hangs
	// leaves time for another. An unreachable lock store prolongs a stop by up to this
	// time.
	RequestTimeout time.Duration
}

// NewConfig returns a configuration with the given durations, and with a margin and a
// request timeout that fit them.
func NewConfig(leaseDuration, renewDeadline, retryPeriod, stopTimeout time.Duration) Config {
	return Config{
		LeaseDuration:  leaseDuration,
		RenewDeadline:  renewDeadline,
		RetryPeriod:    retryPeriod,
		PollPeriod:     retryPeriod / pollsPerRetry,
		Margin:         min(retryPeriod, (leaseDuration-renewDeadline)/2),
		StopTimeout:    stopTimeout,
		RequestTimeout: renewDeadline * 3 / 10,
	}
}

// trust is how long a renewal is trusted, from the start of its request.
func (c Config) trust() time.Duration { return c.RenewDeadline + c.Margin }

// AbortTimeout is how long work may take to stop after its lease was lost:
// LeaseDuration - RenewDeadline - Margin.
func (c Config) AbortTimeout() time.Duration { return c.LeaseDuration - c.trust() }

// NewIdentity returns `<pod>_<uuid>`, which is unique for this process: a restart of the
// pod gets another one. Two processes with the same identity would both lead.
func NewIdentity(pod string) string { return pod + "_" + uuid.NewString() }
