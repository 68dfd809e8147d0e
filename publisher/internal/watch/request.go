package watch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/poll"
)

// pingsPerSilence is how many pings are sent per [Options.Silence] while a request waits.
const pingsPerSilence = 4

// ask makes one request on the stream. Once the stream has caught up, the request is
// limited to Options.Silence. Before that, the server may have to scan any length of oplog
// for its reply, and giving up would lose the scan. The request then ends when the server
// has not answered pings for Options.Silence, or after [Options.CatchUp], which ends a
// request on a dead connection.
func (r *reader) ask(ctx context.Context, request func(context.Context) error) error {
	limit, pinged := r.progress.allowance(time.Now())
	if !pinged {
		asking, cancel := mongox.Timeout(ctx, limit)
		defer cancel()
		return mongox.Explain(asking, request(asking))
	}
	supervised, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	asking, cancel := mongox.Timeout(supervised, limit)
	defer cancel()

	// Most requests are answered before the first ping.
	var pings sync.WaitGroup
	pings.Add(1)
	begun, interval := time.Now(), r.options.Silence/pingsPerSilence
	timer := time.AfterFunc(interval, func() {
		defer pings.Done()
		r.ping(supervised, giveUp, begun, interval)
	})
	err := mongox.Explain(asking, request(asking))
	if err != nil && errors.Is(context.Cause(asking), mongox.ErrNoAnswer) && supervised.Err() == nil {
		r.progress.exceed()
	}
	giveUp(nil)
	if timer.Stop() {
		pings.Done()
	}
	pings.Wait()
	return err
}

// ping pings the server until ctx ends, and ends the request if no ping was answered for
// Options.Silence.
func (r *reader) ping(ctx context.Context, giveUp context.CancelCauseFunc, begun time.Time, interval time.Duration) {
	last, logged := begun, false
	for ctx.Err() == nil {
		pinging, cancel := mongox.Timeout(ctx, interval)
		err := r.source.Ping(pinging)
		cancel()
		now := time.Now()
		switch {
		case err == nil:
			last = now
			r.progress.ping(now)
			if waited := now.Sub(begun); !logged && waited >= r.options.Silence {
				logged = true
				r.options.Logger.Info().Stringer("waited", waited.Round(time.Second)).
					Msg("change stream has not answered yet; the server answers pings and may be scanning its oplog")
			}
		case now.Sub(last) >= r.options.Silence:
			giveUp(mongox.ErrNoAnswer)
			return
		}
		_ = poll.Wait(ctx, interval) // the loop ends with ctx
	}
}
