package mongox

import (
	"context"
	"time"
)

// closeTimeout bounds the end of a cursor that has not been read to its end.
const closeTimeout = 250 * time.Millisecond

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
