package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// SaverConfig says when a saver saves. Zero fields mean the defaults.
type SaverConfig struct {
	// Interval is the time between two saves, and to the next attempt after a failed save;
	// default 1 s.
	Interval time.Duration
	// Timeout bounds one save, default 5 s.
	Timeout time.Duration
	// Access decides for how long MongoDB may refuse the saves. The zero value ends Run at the
	// first refusal; nil retries for ever.
	Access *mongox.Access
	// Beat, if not nil, is called at least every Interval and Timeout together while the
	// saver makes progress; a save that fails is progress.
	Beat func()
}

// Saver saves the low watermark of a term.
//
//	go saver.Run(working)  // with the term's streams; ends with them
//	…                      // drain: acknowledgements still move the watermark
//	saver.Flush(ending)    // the term's last step
type Saver struct {
	claim     *Claim
	watermark *Watermark
	config    SaverConfig
	// moved is when the checkpoint was last moved. It keeps the monotonic reading, so that a
	// changed clock does not distort the age.
	moved atomic.Pointer[time.Time]

	mu sync.Mutex
	// saved is how often the watermark had moved when it was last saved.
	saved uint64
	// failing is the time of the first of the consecutive failures; zero if there is none.
	failing time.Time
}

// NewSaver makes the saver of one term. A watermark has only one saver.
func NewSaver(claim *Claim, watermark *Watermark, config SaverConfig) *Saver {
	config.Interval = cmp.Or(config.Interval, time.Second)
	config.Timeout = cmp.Or(config.Timeout, 5*time.Second)
	s := &Saver{claim: claim, watermark: watermark, config: config}
	now := time.Now()
	s.moved.Store(&now)
	claim.store.metrics.current.Store(s)
	return s
}

// Run saves the low watermark whenever it has moved, until ctx ends, and then returns nil.
// It fails only with [ErrFenced], and with [ErrRefused] if MongoDB has refused the saves for
// too long. It retries after every other error, because a new term would not help, and a
// missed save only means more repeats after a failover.
func (s *Saver) Run(ctx context.Context) error {
	ticker := time.NewTicker(s.config.Interval)
	defer ticker.Stop()
	for {
		if s.config.Beat != nil {
			s.config.Beat()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		err := s.save(ctx, s.config.Timeout)
		if errors.Is(err, ErrFenced) {
			s.close()
			return err
		}
		if access := s.config.Access; access != nil && mongox.AccessRefused(err) && access.Final(err) {
			s.close()
			return fmt.Errorf("%w: %w; grant the user readWrite on the database of the state (PENSTOCK_STATE_DATABASE)", ErrRefused, err)
		}
	}
}

// Flush saves the low watermark if it has moved since the last save. It is the last step of
// a term, after the drain. ctx must end when the term must have ended, not when the drain
// begins. This holds after a lost lease too, because the fence makes a late save harmless.
// ctx must not have a deadline: see [mongox.Timeout].
func (s *Saver) Flush(ctx context.Context) error {
	defer s.close()
	return s.save(ctx, s.config.Timeout)
}

// close removes the term from the metrics.
func (s *Saver) close() { s.claim.store.metrics.current.CompareAndSwap(s, nil) }

func (s *Saver) save(ctx context.Context, timeout time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	position, moves := s.watermark.Low()
	if moves == s.saved {
		return nil
	}
	saving, cancel := mongox.Timeout(ctx, timeout)
	defer cancel()
	begun := time.Now()
	err := mongox.Explain(saving, s.claim.Save(saving, position))
	s.report(ctx, err)
	if err != nil {
		return err
	}
	s.saved = moves
	s.moved.Store(&begun)
	if s.config.Access != nil {
		s.config.Access.Works()
	}
	return nil
}

// report logs the first of consecutive failures, and the first success after them.
func (s *Saver) report(ctx context.Context, err error) {
	logger := s.claim.store.logger
	switch {
	case err == nil && !s.failing.IsZero():
		logger.Info().Stringer("failedFor", time.Since(s.failing).Round(time.Millisecond)).Msg("checkpoint saved again")
		s.failing = time.Time{}
	case err != nil && s.failing.IsZero() && ctx.Err() == nil && !errors.Is(err, ErrFenced):
		logger.Warn().Err(err).Msg("checkpoint not saved; retrying")
		s.failing = time.Now()
	}
}
