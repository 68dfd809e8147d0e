package backlog

import (
	"context"
	"fmt"

	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// Counter counts the sessions that have messages. Make it with [New].
type Counter = sbus.Counter[Connection, int]

// New makes a counter and registers its metrics. It makes no request.
func New(o Options) *Counter {
	counts := obs.CounterVec(o.Registerer, "penstock_projector_backlog_counts_total",
		"Attempts to count the sessions that have messages: ok, busy (the broker throttles) or failed.",
		"result", sbus.CountOK, sbus.CountBusy, sbus.CountFailed)
	obs.Gauge(o.Registerer, "penstock_projector_backlog_sessions_limit",
		"Number of sessions with messages at which counting stops (PENSTOCK_BACKLOG_LIMIT).").Set(float64(o.Limit))
	counter := sbus.NewCounter(sbus.Counting[Connection, int]{
		Dial: o.Dial, Interval: o.Interval, Logger: o.Logger,
		Count: func(ctx context.Context, connection Connection) (int, error) { return count(ctx, connection, o.Limit) },
		Ended: func(result sbus.CountResult) { counts.WithLabelValues(string(result)).Inc() },
		What:  "sessions with messages", Until: "Autoscaling ignores this process until then",
	})
	if o.Registerer != nil {
		o.Registerer.MustRegister(&metrics{counter})
	}
	return counter
}

// count counts the sessions page by page, up to the limit.
func count(ctx context.Context, connection Connection, limit int) (sessions int, err error) {
	for pages := connection.Sessions(); pages.More() && sessions < limit; {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return 0, fmt.Errorf("list sessions after the first %d: %w", sessions, err)
		}
		sessions += len(page.Sessions)
	}
	return sessions, nil
}
