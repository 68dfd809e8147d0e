package publish

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/pkg/poll"
)

// AvailabilityOptions configure an [Availability]. Every zero value is valid.
type AvailabilityOptions struct {
	// FatalAfter is how long the topic may refuse a process that it has served before;
	// 0 ends the term at once. Refusals of single events do not end it.
	FatalAfter time.Duration
	// Explain adds the remedy to an error; nil adds nothing.
	Explain func(error) error
	// Registerer receives penstock_publisher_topic_refused; nil for none.
	Registerer prometheus.Registerer
	// Logger defaults to none.
	Logger zerolog.Logger
}

// Availability records, over all terms of a process, how long the topic has refused the
// process with [FaultFatal]: the topic is missing or disabled, or the credentials lack
// rights.
//
// At the start such a refusal means a wrong configuration, and the process exits with the
// remedy. After the process has connected to the topic once, the same answers also come
// from a failover of the namespace or while rights are being changed. Then the process
// retries, is not ready, and exits only if the refusals last for FatalAfter.
//
// Make it with [NewAvailability]. It is safe for concurrent use.
type Availability struct {
	options AvailabilityOptions
	gauge   prometheus.Gauge
	served  atomic.Bool // the topic let the process connect once

	mu sync.Mutex
	// An opened connection ends connecting. An accepted send ends connecting and sending.
	connecting, sending trouble
}

// trouble are consecutive failures of one kind: since when, and since when explicit refusals are
// among them. The zero value is none.
type trouble struct {
	since, refused time.Time
	err, refusal   error
}

func (t *trouble) add(err error, refusal bool) {
	now := time.Now()
	if t.since.IsZero() {
		t.since = now
	}
	t.err = err
	if !refusal {
		return
	}
	if t.refused.IsZero() {
		t.refused = now
	}
	t.refusal = err
}

// NewAvailability makes an Availability for a process whose topic has not answered yet.
func NewAvailability(o AvailabilityOptions) *Availability {
	if o.Explain == nil {
		o.Explain = func(err error) error { return err }
	}
	return &Availability{options: o, gauge: obs.Gauge(o.Registerer, "penstock_publisher_topic_refused",
		"1 while the topic refuses this publisher for a reason that can need an operator, such as missing rights. The publisher retries, and ends after PENSTOCK_FATAL_AFTER.")}
}

// Connected says that a connection to the topic has been opened, with the right to
// send.
func (a *Availability) Connected() {
	a.served.Store(true)
	a.end(&a.connecting)
}

// Accepted says that the topic has accepted a send.
func (a *Availability) Accepted() { a.end(&a.connecting, &a.sending) }

// TermEnded says that this process no longer publishes, so it no longer knows whether the topic
// works. Refusals are kept over terms.
func (a *Availability) TermEnded() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range []*trouble{&a.connecting, &a.sending} {
		t.since, t.err = t.refused, t.refusal
	}
}

// ConnectFailed notes an attempt to connect that failed while no connection was open.
func (a *Availability) ConnectFailed(err error) { a.fails(&a.connecting, err) }

// SendFailed notes a send that failed because of the connection or the broker, and not
// because of its events.
func (a *Availability) SendFailed(err error) { a.fails(&a.sending, err) }

func (a *Availability) fails(t *trouble, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t.add(err, false)
}

// Failing returns since when no connection could be opened or, if one is open, no send was
// accepted, and the last error. The error is nil if the topic works.
func (a *Availability) Failing() (since time.Time, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !a.connecting.since.IsZero():
		return a.connecting.since, fmt.Errorf("no connection to the topic can be opened: %w", a.connecting.err)
	case !a.sending.since.IsZero():
		return a.sending.since, fmt.Errorf("the topic accepts no send: %w", a.sending.err)
	}
	return time.Time{}, nil
}

// Refused notes that the topic has refused a send. The error is nil if the caller should
// retry; otherwise it says why the term must end.
func (a *Availability) Refused(err error) error { return a.refuse(&a.sending, err) }

// ConnectRefused is [Availability.Refused] for an attempt to connect.
func (a *Availability) ConnectRefused(err error) error { return a.refuse(&a.connecting, err) }

func (a *Availability) refuse(t *trouble, err error) error {
	if !a.served.Load() {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refused() == nil {
		a.gauge.Set(1)
		a.options.Logger.Error().Err(a.options.Explain(err)).Stringer("endsAfter", a.options.FatalAfter).Msg("topic refuses this publisher; retrying")
	}
	t.add(err, true)
	if lasted := time.Since(t.refused); lasted >= a.options.FatalAfter {
		return fmt.Errorf("refused for %s: %w", poll.Duration(lasted), err)
	}
	return nil
}

// Err is nil unless the topic refuses the process at present. Then it says why, and what to
// do. It is a readiness check.
func (a *Availability) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.refused(); t != nil {
		return fmt.Errorf("the topic has refused this publisher for %s: %w", poll.Duration(time.Since(t.refused)), a.options.Explain(t.refusal))
	}
	return nil
}

// refused returns the trouble that has refusals; nil if none has. The caller holds the mutex.
func (a *Availability) refused() *trouble {
	for _, t := range []*trouble{&a.connecting, &a.sending} {
		if !t.refused.IsZero() {
			return t
		}
	}
	return nil
}

// end ends trouble, and logs that the topic accepts the publisher if no refusals are left.
func (a *Availability) end(ended ...*trouble) {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.refused()
	for _, t := range ended {
		*t = trouble{}
	}
	if was != nil && a.refused() == nil {
		a.gauge.Set(0)
		a.options.Logger.Info().Msg("topic accepts this publisher again")
	}
}
