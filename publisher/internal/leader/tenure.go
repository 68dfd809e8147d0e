package leader

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// outcome says how a term ended. The zero value means that there was no term.
type outcome struct {
	reason reason
	lasted time.Duration
}

// lead runs the work of one term, and returns when it has ended or is stuck. ended is closed
// when client-go's elector has ended.
func (e *Elector) lead(ctx context.Context, work Work, lock *guard, ended <-chan struct{}) (outcome, error) {
	held, lose := context.WithCancelCause(context.WithoutCancel(ctx))
	defer lose(errTermOver)
	working, stop := context.WithCancelCause(held)
	defer stop(errTermOver)
	term := &Term{identity: lock.Identity(), started: time.Now(), held: held}

	e.metrics.leader.Set(1)
	e.logger.Info().Msg("term began")
	result := make(chan error, 1)
	go func() { result <- work(working, term) }()

	// limit fires when the work must have ended. It is armed when the work is asked to
	// stop.
	limit := newDeadlineTimer(&term.limit)
	defer limit.Stop()
	trust := time.NewTimer(time.Until(lock.deadline()))
	defer trust.Stop()

	lost := lock.lost
	var why reason
	stopping := ctx.Done()
	abort := func(r reason, cause error) {
		if why == "" {
			why = r
		}
		limit.advance(time.Now().Add(e.config.AbortTimeout()))
		lose(cause)
		lost, ended = nil, nil
		trust.Stop()
	}
	for {
		select {
		case err := <-result:
			lock.end()
			if why == "" {
				why = reasonWorkFailed
				if err == nil {
					err = errors.New("work ended before its term")
				}
			}
			return e.finish(term, why, err), nil
		case <-stopping:
			stopping = nil
			if why == "" {
				why = reasonStopping
			}
			limit.advance(time.Now().Add(e.config.StopTimeout))
			stop(ErrStopping)
		case <-lost:
			abort(reasonLeaseLost, ErrLeaseLost)
		case <-ended:
			abort(reasonLeaseLost, ErrLeaseLost)
		case <-trust.C:
			if deadline := lock.deadline(); time.Until(deadline) > 0 {
				trust.Reset(time.Until(deadline))
				continue
			}
			abort(reasonTrustExpired, ErrTrustExpired)
		case <-limit.C:
			return e.finish(term, reasonWorkerStuck, ErrWorkerStuck), ErrWorkerStuck
		}
	}
}

func (e *Elector) finish(term *Term, why reason, err error) outcome {
	lasted := time.Since(term.started)
	e.metrics.leader.Set(0)
	e.metrics.terms.WithLabelValues(string(why)).Inc()
	level := zerolog.InfoLevel
	if why == reasonWorkFailed || why == reasonWorkerStuck {
		level = zerolog.ErrorLevel
	}
	e.logger.WithLevel(level).Err(err).Str("reason", string(why)).Stringer("lasted", lasted.Round(time.Millisecond)).Msg("term ended")
	if e.options.TermEnded != nil {
		e.options.TermEnded(TermEnd{Began: term.started, Lasted: lasted, Reason: string(why), Err: err})
	}
	return outcome{reason: why, lasted: lasted}
}

// forever is longer than any term.
const forever = time.Duration(math.MaxInt64)

// deadlineTimer is a timer that starts unarmed and can only be moved to an earlier time.
type deadlineTimer struct {
	*time.Timer
	// at is when it fires, for other goroutines to read; nil while it is unarmed.
	at *atomic.Pointer[time.Time]
}

func newDeadlineTimer(at *atomic.Pointer[time.Time]) deadlineTimer {
	return deadlineTimer{Timer: time.NewTimer(forever), at: at}
}

// advance arms the timer for at, unless it is armed for an earlier time.
func (t deadlineTimer) advance(at time.Time) {
	if armed := t.at.Load(); armed == nil || at.Before(*armed) {
		t.at.Store(&at)
		t.Reset(time.Until(at))
	}
}
