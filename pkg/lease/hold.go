package lease

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// Held is a lease under which work runs.
type Held struct {
	ctx     context.Context //nolint:containedctx // the work's, made and ended by Hold
	cancel  context.CancelCauseFunc
	options Options
	trust   Trust
}

// Options configure [Hold].
type Options struct {
	// Taken is when the request began that took the lease, and Lasts is its duration.
	Taken time.Time
	Lasts time.Duration
	// Renew renews the lease, for the duration Lasts. It is called after each third of it.
	Renew func(ctx context.Context) error
	// Final reports whether an error of a renewal ends the work. After any other error, the
	// renewal is repeated.
	Final func(err error) bool
	// Expired is the cause of the end of the work if no renewal is answered in time.
	Expired error
	// Retried is called with the errors after which a renewal is repeated.
	Retried func(err error)
}

// Hold runs work under a lease that was taken, and renews it until the work has returned.
// The context of the work ends before another process can take the lease. The cause is
// [Options.Expired], or the final error of a renewal.
//
// The result is that cause, or nil if the lease did not end the work. The lease is not
// released.
func Hold(ctx context.Context, o Options, work func(ctx context.Context, h *Held)) error {
	h := &Held{options: o}
	h.trust.Extend(o.Taken, Trusted(o.Lasts))
	if !h.trust.Holds() {
		return o.Expired
	}
	h.ctx, h.cancel = context.WithCancelCause(ctx)
	done := make(chan struct{})
	var keeper sync.WaitGroup
	keeper.Go(func() { h.keep(done) })
	work(h.ctx, h)
	close(done)
	keeper.Wait()
	cause := context.Cause(h.ctx)
	h.cancel(nil)
	if errors.Is(cause, o.Expired) || o.Final(cause) {
		return cause
	}
	return nil
}

// keep renews the lease until the work is done or must end.
func (h *Held) keep(done <-chan struct{}) {
	renewal := time.NewTicker(h.options.Lasts / 3)
	defer renewal.Stop()
	expiry := time.NewTimer(h.trust.Left())
	defer expiry.Stop()
	for {
		select {
		case <-done:
			return
		case <-h.ctx.Done():
			return
		case <-renewal.C:
			h.renew()
		case <-expiry.C:
		}
		left := h.trust.Left()
		if left <= 0 {
			h.cancel(h.options.Expired)
			return
		}
		expiry.Reset(left)
	}
}

// renew renews the lease by one request, which ends with the trust.
func (h *Held) renew() {
	ctx, cancel := mongox.Timeout(h.ctx, h.trust.Left())
	defer cancel()
	err := h.Renewing(func() error { return h.options.Renew(ctx) })
	if err != nil && h.ctx.Err() == nil {
		h.options.Retried(err)
	}
}

// Renewing runs a request of the work that also renews the lease for its full duration, such
// as one that saves progress. After the end of the work's context, it runs nothing and
// returns the cause. If the error is final, it ends the context.
func (h *Held) Renewing(request func() error) error {
	if h.ctx.Err() != nil {
		return context.Cause(h.ctx)
	}
	start := time.Now()
	err := request()
	switch {
	case err == nil:
		h.trust.Extend(start, Trusted(h.options.Lasts))
	case h.options.Final(err):
		h.cancel(err)
	}
	return err
}
