package mongox

import (
	"context"
	"time"
)

// closeTimeout bounds the end of a cursor that has not been read to its end.
const closeTimeout = 250 * time.Millisecond

// disconnectTimeout bounds the end of a client.
const disconnectTimeout = 2 * time.Second

// CloseCursor closes a cursor or a change stream that is no longer read. Otherwise the
// server keeps it for ten minutes. Nothing depends on the answer, so CloseCursor takes at
// most 250 ms, also if ctx has ended.
func CloseCursor(ctx context.Context, cursor interface {
	Close(ctx context.Context) error
}) error {
	closing, cancel := Timeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return Explain(closing, cursor.Close(closing))
}

// Disconnect ends a client and its connections. Requests in flight fail: see [Requests]. It
// takes at most 2 s, also if ctx has ended. If the context has a deadline, the driver waits until no connection is
// in use, and it waits in a busy loop (v2.9.3, x/mongo/driver/topology/pool.go).
func Disconnect(ctx context.Context, client interface {
	Disconnect(ctx context.Context) error
}) error {
	if all, ok := ctx.Value(requestsKey{}).(*requests); ok {
		all.end()
	}
	closing, cancel := Timeout(context.Background(), disconnectTimeout)
	defer cancel()
	return Explain(closing, client.Disconnect(closing))
}
