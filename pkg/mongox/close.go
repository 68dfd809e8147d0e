package mongox

import (
	"context"
	"time"
)

// closeTimeout bounds the end of a cursor that has not been read to its end.
const closeTimeout = 250 * time.Millisecond

// CloseCursor tells the server that nobody reads a cursor, or a change stream, on. Otherwise the
// server keeps it for ten minutes. That is only a courtesy, so it takes at most 250 ms, also
// if ctx has ended.
func CloseCursor(ctx context.Context, cursor interface {
	Close(ctx context.Context) error
}) error {
	closing, cancel := Timeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return Explain(closing, cursor.Close(closing))
}
