package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// startup says for /readyz what the projector does before it drains. Its zero value
// has not begun. Any goroutine may ask it.
type startup struct {
	state atomic.Pointer[error]
}

var errNotBegun = errors.New("the stores have not been prepared yet")

// slowStep is how long a step may take before the log names it.
const slowStep = 3 * time.Second

// begin says what the start waits to do, an infinitive. If that takes long, the log
// says it too. The caller calls what begin returns at the end of the step.
func (s *startup) begin(step string, logger zerolog.Logger) (end func()) {
	s.retry(step, nil)
	slow := time.AfterFunc(slowStep, func() {
		logger.Info().Str("waitsTo", step).Msg("store has not answered yet; a change of collections waits for open transactions, for up to a minute")
	})
	return func() { slow.Stop() }
}

// retry says with which error the last attempt at a step ended; nil: there was none.
func (s *startup) retry(step string, last error) {
	err := fmt.Errorf("%w: the projector waits to %s", errNotBegun, step)
	if last != nil {
		err = fmt.Errorf("%w; the last attempt: %w", err, last)
	}
	s.state.Store(&err)
}

// done says that the start is complete.
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
