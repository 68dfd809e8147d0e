package pause

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/poll/polltest"
)

// source stores a pause in memory.
type source struct {
	mu      sync.Mutex
	pause   *Pause
	err     error
	process string
	// refused is how many of the next records fail.
	refused int
	records int
}

func (s *source) set(p *Pause, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pause, s.err = p, err
}

func (s *source) Get(context.Context) (*Pause, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pause, s.err
}

func (s *source) AddStopped(_ context.Context, process string, _ time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refused--; s.refused >= 0 {
		return errors.New("no primary")
	}
	s.process = process
	s.records++
	return nil
}

func (s *source) recorded() (records int, process string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records, s.process
}

func TestWorkStopsDuringAPauseAndContinuesAfterIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from := &source{}
		s := NewSwitch(from, "pod", zerolog.Nop())
		polltest.Start(t, s.Run)
		working, release, err := s.Working(t.Context())
		if err != nil || working.Err() != nil || s.Value() != 0 {
			t.Fatalf("not working: %v", err)
		}
		from.set(&Pause{Who: "ada", At: time.Now()}, nil)
		polltest.Pass(pollInterval)
		if !errors.Is(context.Cause(working), ErrPaused) || s.Value() != 1 || s.Paused().Who != "ada" {
			t.Errorf("after %v of a pause the work's context has the cause %v", pollInterval, context.Cause(working))
		}
		if from.process != "" {
			t.Error("the process has recorded that it has stopped while it works")
		}
		release()
		polltest.Pass(2 * pollInterval)
		if from.process != "pod" {
			t.Error("the process has not recorded that it has stopped")
		}
		began := time.Now()
		time.AfterFunc(time.Hour, func() { from.set(nil, nil) })
		working, release, err = s.Working(t.Context())
		if waited := time.Since(began); err != nil || waited < time.Hour || waited > time.Hour+2*pollInterval {
			t.Errorf("work went on after %v, %v", waited, err)
		}
		release()
		if working.Err() == nil {
			t.Error("a released context has not ended")
		}
	})
}

// A pause that replaces another one between two reads has its own list of stopped
// processes. What could not be recorded is repeated.
func TestWaitingProcessIsRecordedOnceForEachPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from := &source{pause: &Pause{At: time.Now()}, refused: 3}
		s := NewSwitch(from, "", zerolog.Nop())
		polltest.Start(t, s.Run)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _, _ = s.WorkingAs(ctx, "leader")
		}()
		for want := 1; want <= 3; want++ {
			polltest.Pass(10 * pollInterval)
			if records, process := from.recorded(); records != want || process != "leader" {
				t.Errorf("%d records of %q, want %d", records, process, want)
			}
			from.set(&Pause{At: time.Now()}, nil)
		}
		cancel()
		<-done
		polltest.Pass(2 * pollInterval)
		from.set(&Pause{At: time.Now()}, nil)
		polltest.Pass(2 * pollInterval)
		if records, _ := from.recorded(); records != 3 {
			t.Errorf("%d records: a process that does not wait was recorded", records)
		}
	})
}

func TestWorkStartsOnlyAfterThePauseWasRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from := &source{err: errors.New("no primary")}
		s := NewSwitch(from, "pod", zerolog.Nop())
		if err := s.Check(t.Context()); err == nil {
			t.Error("ready before the first read")
		}
		polltest.Start(t, s.Run)
		known := false
		for _, state := range []struct {
			pause *Pause
			err   error
			works bool
		}{
			{nil, from.err, false},
			{&Pause{}, nil, false},
			{nil, from.err, false},
			{nil, nil, true},
			{nil, from.err, true},
		} {
			from.set(state.pause, state.err)
			polltest.Pass(pollInterval)
			known = known || state.err == nil
			if err := s.Check(t.Context()); (err == nil) != known || !known && !errors.Is(err, state.err) {
				t.Errorf("ready after %+v: %v", state, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			_, release, err := s.Working(ctx)
			if (err == nil) != state.works {
				t.Errorf("%+v: %v", state, err)
			}
			if err == nil {
				release()
			}
			cancel()
		}
	})
}

func TestNilSwitchIsNeverPaused(t *testing.T) {
	t.Parallel()
	var s *Switch
	working, release, err := s.Working(t.Context())
	if err != nil || working.Err() != nil || s.Paused() != nil || s.Value() != 0 || s.Check(t.Context()) != nil {
		t.Errorf("paused: %v", err)
	}
	release()
}
