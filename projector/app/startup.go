package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// startup reports to /readyz what the projector waits for before it drains. The zero value
// means that the start has not begun. It is safe for concurrent use.
type startup struct {
	state atomic.Pointer[error]
}

var errNotBegun = errors.New("the stores have not been prepared yet")

// slowStep is how long a step may take before the log names it.
const slowStep = 3 * time.Second

// begin names the step that the start waits for, as an infinitive. If the step takes longer
// than slowStep, begin logs it. The caller calls end after the step.
func (s *startup) begin(step string, logger zerolog.Logger) (end func()) {
	s.retry(step, nil)
	slow := time.AfterFunc(slowStep, func() {
		logger.Info().Str("waitsTo", step).Msg("store has not answered yet; a change of collections waits for open transactions, for up to a minute, and an index of a large collection takes long")
	})
	return func() { slow.Stop() }
}

// retry reports the error of the last attempt at a step; nil if there was none.
func (s *startup) retry(step string, last error) {
	err := fmt.Errorf("%w: the projector waits to %s", errNotBegun, step)
	if last != nil {
		err = fmt.Errorf("%w; the last attempt: %w", err, last)
	}
	s.state.Store(&err)
}

// done reports that the start is complete.
func (s *startup) done() {
	var none error
	s.state.Store(&none)
}

// check is the readiness check.
func (s *startup) check(context.Context) error {
	if err := s.state.Load(); err != nil {
		return *err
	}
	return errNotBegun
}
