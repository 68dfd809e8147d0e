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
	lasting atomic.Bool // some of the refusals or failures last

	mu sync.Mutex
	// connecting are the refusals since the last connection was opened, and sending those
	// since the last send was accepted.
	connecting, sending streak
	// unconnected are the failed attempts to connect since a connection was last open, and
	// unsent the failed sends since the topic last accepted one.
	unconnected, unsent streak
}

// streak are consecutive refusals or failures of one kind. The zero value is none.
type streak struct {
	since time.Time
	err   error
}

// add adds a refusal or failure.
func (s *streak) add(err error) {
	if s.since.IsZero() {
		s.since = time.Now()
	}
	s.err = err
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
	a.accepts(&a.connecting, &a.unconnected)
}

// Accepted says that the topic has accepted a send.
func (a *Availability) Accepted() {
	a.accepts(&a.sending, &a.unconnected, &a.unsent)
}

// ConnectFailed notes an attempt to connect that failed while no connection was open.
func (a *Availability) ConnectFailed(err error) { a.fails(&a.unconnected, err) }

// SendFailed notes a send that failed because of the connection or the broker, and not
// because of its events.
func (a *Availability) SendFailed(err error) { a.fails(&a.unsent, err) }

// TermEnded says that this process no longer publishes, so it no longer knows whether the
// topic works.
func (a *Availability) TermEnded() {
	a.end(&a.unconnected, &a.unsent)
}

// Failing returns since when no connection could be opened or, if one is open, no send was
// accepted, and the last error. The error is nil if the topic works.
func (a *Availability) Failing() (since time.Time, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !a.unconnected.since.IsZero():
		return a.unconnected.since, fmt.Errorf("no connection to the topic can be opened: %w", a.unconnected.err)
	case !a.unsent.since.IsZero():
		return a.unsent.since, fmt.Errorf("the topic accepts no send: %w", a.unsent.err)
	}
	return time.Time{}, nil
}

func (a *Availability) fails(s *streak, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lasting.Store(true)
	s.add(err)
}

// Refused notes that the topic has refused a send. The error is nil if the caller should
// retry; otherwise it says why the term must end.
func (a *Availability) Refused(err error) error { return a.refuse(&a.sending, err) }

// ConnectRefused is [Availability.Refused] for an attempt to connect.
func (a *Availability) ConnectRefused(err error) error { return a.refuse(&a.connecting, err) }

// Err is nil unless the topic refuses the process at present. Then it says why, and what to
// do. It is a readiness check.
func (a *Availability) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.refused(); s != nil {
		return fmt.Errorf("the topic has refused this publisher for %s: %w", poll.Duration(time.Since(s.since)), a.options.Explain(s.err))
	}
	return nil
}

// refused returns the refusals that last, of the first kind that has some; nil if there are
// none. The caller holds the mutex.
func (a *Availability) refused() *streak {
	for _, s := range []*streak{&a.connecting, &a.sending} {
		if !s.since.IsZero() {
			return s
		}
	}
	return nil
}

func (a *Availability) refuse(s *streak, err error) error {
	if !a.served.Load() {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refused() == nil {
		a.gauge.Set(1)
		a.options.Logger.Error().Err(a.options.Explain(err)).Stringer("endsAfter", a.options.FatalAfter).Msg("topic refuses this publisher; retrying")
	}
	a.lasting.Store(true)
	s.add(err)
	if lasted := time.Since(s.since); lasted >= a.options.FatalAfter {
		return fmt.Errorf("refused for %s: %w", poll.Duration(lasted), err)
	}
	return nil
}

// accepts ends refusals and failures, and logs that the topic accepts the publisher if no
// refusals are left.
func (a *Availability) accepts(ended ...*streak) {
	if a.end(ended...) {
		a.options.Logger.Info().Msg("topic accepts this publisher again")
	}
}

// end ends refusals and failures, and reports whether the last refusals have ended.
func (a *Availability) end(ended ...*streak) (last bool) {
	if !a.lasting.Load() {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.refused()
	for _, s := range ended {
		*s = streak{}
	}
	refused := a.refused() != nil
	a.lasting.Store(refused || !a.unconnected.since.IsZero() || !a.unsent.since.IsZero())
	if was == nil || refused {
		return false
	}
	a.gauge.Set(0)
	return true
}
