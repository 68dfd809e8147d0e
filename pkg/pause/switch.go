package pause

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/poll"
)

// ErrPaused is the cause that ends the work of a service which is paused.
var ErrPaused = errors.New("service is paused")

// pollInterval is how often a process reads the pause.
const pollInterval = time.Second

// Source lets a switch read the pause and record that work has ended. A [*Store] is one.
type Source interface {
	Get(ctx context.Context) (*Pause, error)
	AddStopped(ctx context.Context, process string, at time.Time) error
}

var _ Source = (*Store)(nil)

// Switch follows the pause of a service for one process. Make it with [NewSwitch], and have
// [Switch.Run] running. A nil switch is never paused. It is safe for concurrent use.
type Switch struct {
	source Source
	// process is recorded as stopped when no context of Working is left; empty means none.
	process string
	logger  zerolog.Logger
	// recorded has, for each process, the start of the pause for which it was recorded. Only
	// Run uses it.
	recorded map[string]time.Time

	mu sync.Mutex
	// known is set by the first successful read.
	known bool
	pause *Pause
	// failed is the error of the last read; nil if it succeeded.
	failed error
	// changed is closed and replaced when known or pause changes.
	changed chan struct{}
	// ends has the cancel functions of Working's contexts that are not released.
	ends map[*byte]context.CancelCauseFunc
	// waiting has the processes of the calls of WorkingAs that wait.
	waiting map[*byte]string
}

// NewSwitch makes a switch; only Run reads the pause. In a pause, the switch records that
// process has stopped, as soon as every context of Working is released. If process is
// empty, only the callers of [Switch.WorkingAs] are recorded. That is for services of which
// only one process works, because the others have nothing to report.
func NewSwitch(source Source, process string, logger zerolog.Logger) *Switch {
	return &Switch{
		source: source, process: process, logger: logger, recorded: make(map[string]time.Time),
		changed: make(chan struct{}), ends: make(map[*byte]context.CancelCauseFunc), waiting: make(map[*byte]string),
	}
}

// Run reads the pause every second until ctx ends, and returns nil.
func (s *Switch) Run(ctx context.Context) error {
	poll.Every(ctx, pollInterval, func() {
		s.read(ctx)
		s.record(ctx)
	})
	return nil
}

func (s *Switch) read(ctx context.Context) {
	found, err := s.source.Get(ctx)
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		switch {
		case s.failed != nil:
		case s.known:
			s.logger.Warn().Err(err).Msg("pause not read; keeping the last known state")
		default:
			s.logger.Error().Err(err).Msg("pause not read; nothing works until it is known whether the service is paused. Retrying")
		}
		s.failed = err
		return
	}
	s.failed = nil
	before := s.pause
	changed := !s.known || (before == nil) != (found == nil)
	s.known, s.pause = true, found
	if !changed {
		return
	}
	switch {
	case found != nil:
		s.logger.Warn().Str("who", found.Who).Str("why", found.Why).Time("since", found.At).Msg("paused by a command")
		for _, end := range s.ends {
			end(ErrPaused)
		}
	case before != nil:
		s.logger.Info().Msg("resumed by a command")
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// record records the processes that have stopped, once for each pause. It repeats what
// fails. A pause can also replace another one between two reads.
func (s *Switch) record(ctx context.Context) {
	s.mu.Lock()
	found := s.pause
	var stopped []string
	if s.process != "" && len(s.ends) == 0 {
		stopped = append(stopped, s.process)
	}
	for _, process := range s.waiting {
		stopped = append(stopped, process)
	}
	s.mu.Unlock()
	if found == nil {
		clear(s.recorded)
		return
	}
	for _, process := range stopped {
		if at, done := s.recorded[process]; done && at.Equal(found.At) {
			continue
		}
		if err := s.source.AddStopped(ctx, process, found.At); err != nil {
			s.logger.Warn().Err(err).Msg("stop for the pause not recorded; retrying")
			continue
		}
		s.recorded[process] = found.At
	}
}

// Working waits until the service is known not to be paused. It returns a context that ends
// with ctx, or with the cause [ErrPaused] when a pause begins. The caller calls release
// when its work has ended. The error is the cause of ctx.
func (s *Switch) Working(ctx context.Context) (working context.Context, release func(), err error) {
	return s.WorkingAs(ctx, "")
}

// WorkingAs is [Switch.Working] for work that the named process does alone. While it waits
// in a pause, the process is recorded as stopped. An empty name records nothing.
func (s *Switch) WorkingAs(ctx context.Context, process string) (working context.Context, release func(), err error) {
	if s == nil {
		return ctx, func() {}, nil
	}
	key := new(byte)
	if process != "" {
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.waiting, key)
		}()
	}
	for {
		s.mu.Lock()
		if s.known && s.pause == nil && ctx.Err() == nil {
			defer s.mu.Unlock()
			working, end := context.WithCancelCause(ctx)
			s.ends[key] = end
			return working, func() {
				s.mu.Lock()
				delete(s.ends, key)
				s.mu.Unlock()
				end(nil)
			}, nil
		}
		changed := s.changed
		if process != "" {
			s.waiting[key] = process
		}
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		case <-changed:
		}
	}
}

// Check is a readiness check. It fails before the first successful read, because the
// process does not work until then.
func (s *Switch) Check(context.Context) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.known:
		return nil
	case s.failed == nil:
		return errors.New("it is not known yet whether the service is paused")
	}
	return fmt.Errorf("it is not known whether the service is paused, so nothing works: %w", s.failed)
}

// Paused returns the pause; nil if the service is not paused, or if that is unknown yet.
func (s *Switch) Paused() *Pause {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pause
}

// Value is 1 while the service is paused and 0 otherwise, for a metric.
func (s *Switch) Value() float64 {
	if s.Paused() != nil {
		return 1
	}
	return 0
}
