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
	trouble
}

// refusalLasts is how long a refusal counts after the last one. A process sends nothing while another
// one leads, so nothing else ends its refusal.
const refusalLasts = 15 * time.Minute

// trouble are consecutive failures. The zero value is none.
type trouble struct {
	// since is when they began, and refused when the explicit refusals among them did. err and
	// refusal are the last of each, and last is when the last refusal was.
	since, refused, last time.Time
	err, refusal         error
	// connecting says that the last failure is one to connect. sending says that a send is
	// among them: only an accepted send ends them then, otherwise an opened connection does.
	connecting, sending bool
}

func (t *trouble) add(err error, send bool) {
	if t.since.IsZero() {
		t.since = time.Now()
	}
	t.err, t.connecting, t.sending = err, !send, t.sending || send
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
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.connecting = false; !a.sending {
		a.end()
	}
}

// Accepted says that the topic has accepted a send.
func (a *Availability) Accepted() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end()
}

// end ends the trouble. The caller holds the mutex.
func (a *Availability) end() {
	if !a.refused.IsZero() {
		a.gauge.Set(0)
		a.options.Logger.Info().Msg("topic accepts this publisher again")
	}
	a.trouble = trouble{}
}

// TermEnded says that this process no longer publishes, so it no longer knows whether the topic
// works. Refusals are kept over terms.
func (a *Availability) TermEnded() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refused.IsZero() {
		a.trouble = trouble{}
	}
	a.since, a.err = a.refused, a.refusal
}

// ConnectFailed notes an attempt to connect that failed while no connection was open.
func (a *Availability) ConnectFailed(err error) { a.fails(err, false) }

// SendFailed notes a send that failed because of the connection or the broker, and not
// because of its events.
func (a *Availability) SendFailed(err error) { a.fails(err, true) }

func (a *Availability) fails(err error, send bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.add(err, send)
}

// Failing returns since when no connection could be opened or, if one is open, no send was
// accepted, and the last error. The error is nil if the topic works.
func (a *Availability) Failing() (since time.Time, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.since.IsZero():
		return time.Time{}, nil
	case a.connecting:
		return a.since, fmt.Errorf("no connection to the topic can be opened: %w", a.err)
	}
	return a.since, fmt.Errorf("the topic accepts no send: %w", a.err)
}

// Refused notes that the topic has refused a send. The error is nil if the caller should
// retry; otherwise it says why the term must end.
func (a *Availability) Refused(err error) error { return a.refuse(err, true) }

// ConnectRefused is [Availability.Refused] for an attempt to connect.
func (a *Availability) ConnectRefused(err error) error { return a.refuse(err, false) }

func (a *Availability) refuse(err error, send bool) error {
	if !a.served.Load() {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget()
	if a.refused.IsZero() {
		a.refused = time.Now()
		a.gauge.Set(1)
		a.options.Logger.Error().Err(a.options.Explain(err)).Stringer("endsAfter", a.options.FatalAfter).Msg("topic refuses this publisher; retrying")
	}
	a.add(err, send)
	a.refusal, a.last = err, time.Now()
	if lasted := time.Since(a.refused); lasted >= a.options.FatalAfter {
		return fmt.Errorf("refused for %s: %w", poll.Duration(lasted), err)
	}
	return nil
}

// forget ends a refusal that no other one has followed. The caller holds the mutex.
func (a *Availability) forget() {
	if !a.refused.IsZero() && time.Since(a.last) > refusalLasts {
		a.gauge.Set(0)
		a.trouble = trouble{}
	}
}

// Err is nil unless the topic refuses the process at present. Then it says why, and what to
// do. It is a readiness check.
func (a *Availability) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget()
	if a.refused.IsZero() {
		return nil
	}
	return fmt.Errorf("the topic has refused this publisher for %s: %w", poll.Duration(time.Since(a.refused)), a.options.Explain(a.refusal))
}
