package job

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// holding is a claim that is being worked on. It extends the lease, and ends its context
// when the work must stop.
type holding struct {
	ctx    context.Context //nolint:containedctx // the work's, made and ended here
	cancel context.CancelCauseFunc
	jobs   Jobs
	claim  Claim
	lease  time.Duration
	log    *zerolog.Logger
	// keeper waits for the goroutine that extends the lease; done ends it.
	keeper sync.WaitGroup
	done   chan struct{}

	mu sync.Mutex
	// saved are the counts of the last save.
	saved map[string]int64
	// trusted is the time until which the lease certainly holds, by this process's clock:
	// the start of the last request that extended it, plus the lease without its margin.
	trusted time.Time
}

var _ Progress = (*holding)(nil)

// marginShare is the part of a lease that is kept as a margin, for the time in which work
// stops, and for clocks of different speed.
const marginShare = 6

func newHolding(ctx context.Context, o RunnerOptions, c Claim, requested time.Time, log *zerolog.Logger) *holding {
	h := &holding{
		jobs: o.Jobs, claim: c, lease: o.Lease, log: log, done: make(chan struct{}), saved: c.Range.Counts,
		trusted: requested.Add(o.Lease - o.Lease/marginShare),
	}
	h.ctx, h.cancel = context.WithCancelCause(ctx)
	h.keeper.Go(h.keep)
	return h
}

// keep extends the lease until the work ends. It stops the work before the lease may
// have expired.
func (h *holding) keep() {
	ticker := time.NewTicker(h.lease / 3)
	defer ticker.Stop()
	expiry := time.NewTimer(time.Until(h.until()))
	defer expiry.Stop()
	for {
		select {
		case <-h.done:
			return
		case <-h.ctx.Done():
			return
		case <-ticker.C:
			if err := h.extend(); stops(err) {
				h.cancel(err)
				return
			}
		case <-expiry.C:
		}
		left := time.Until(h.until())
		if left <= 0 {
			h.cancel(fmt.Errorf("no request about the range was answered for %v: %w", h.lease, ErrLost))
			return
		}
		expiry.Reset(left)
	}
}

// extend extends the lease by one request, which ends with the lease.
func (h *holding) extend() error {
	ctx, cancel := mongox.Timeout(h.ctx, time.Until(h.until()))
	defer cancel()
	start := time.Now()
	err := h.jobs.Keep(ctx, h.claim, h.lease)
	if err == nil {
		h.extended(start)
	} else if !stops(err) && h.ctx.Err() == nil {
		h.log.Debug().Err(err).Msg("lease of a range not extended; retrying")
	}
	return err
}

func (h *holding) until() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.trusted
}

// extended records that a request that began at start has extended the lease.
func (h *holding) extended(start time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if until := start.Add(h.lease - h.lease/marginShare); until.After(h.trusted) {
		h.trusted = until
	}
}

// Save stores the progress of the work.
func (h *holding) Save(ctx context.Context, position bson.Raw, counts map[string]int64) error {
	if h.ctx.Err() != nil {
		return context.Cause(h.ctx)
	}
	start := time.Now()
	err := h.jobs.Save(ctx, h.claim, position, counts, h.lease)
	switch {
	case err == nil:
		h.extended(start)
		h.mu.Lock()
		h.saved = maps.Clone(counts)
		h.mu.Unlock()
	case stops(err):
		h.cancel(err)
	}
	return err
}

// counts are those of the last save.
func (h *holding) counts() map[string]int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.saved
}

// stop ends the extension of the lease, after the work has ended. The result is the reason
// why the work was stopped; nil if it was not.
func (h *holding) stop() error {
	close(h.done)
	h.keeper.Wait()
	cause := context.Cause(h.ctx)
	h.cancel(nil)
	if stops(cause) {
		return cause
	}
	return nil
}
