package deadletter

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/rs/zerolog"
)

const (
	// quiet is how long [Remove] waits for the next message. If a message that was listed does
	// not come, another receiver has locked it.
	quiet = 2 * time.Second
	// returnTimeout bounds settling a message: removing it, or unlocking it at the end. If that
	// fails, the lock expires.
	returnTimeout = 5 * time.Second
)

// Peek calls visit for at most limit messages from the front of a queue, and for about 16
// MiB at most. bounded says that the queue may have more. It locks no message.
func Peek(ctx context.Context, q Queue, limit int, visit func(*Message)) (bounded bool, err error) {
	return pages(ctx, q, limit, maxBytes, visit)
}

// PeekAll calls visit for every message of a queue, from the front. It locks no message.
func PeekAll(ctx context.Context, q Queue, visit func(*Message)) error {
	_, err := pages(ctx, q, math.MaxInt, math.MaxInt, visit)
	return err
}

// Remove permanently removes the messages with the given sequence numbers. It deletes the removed
// ones from sequences, and returns their number, also with an error. A message that another receiver
// has locked stays. The messages that the broker hands out before a chosen one, in an order of its own,
// stay locked meanwhile. If their locks end, the queue begins again, and Remove fails.
func Remove(ctx context.Context, q Queue, sequences map[int64]bool, logger zerolog.Logger) (removed int, err error) {
	var others []Message
	locked := make(map[int64]bool)
	defer func() {
		// The locks of the last ones end last.
		for i := range slices.Backward(others) {
			returning, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnTimeout)
			e := q.Abandon(returning, &others[i])
			cancel()
			if e != nil {
				logger.Debug().Err(e).Int("messages", i+1).Msg("dead letters not unlocked; their locks will expire")
				return
			}
		}
	}()
	// With more than one message, the SDK returns 20 ms after the first.
	page := 1
	for seen, size := 0, 0; len(sequences) > 0; page = pageAfter(seen, size) {
		waiting, cancel := context.WithTimeout(ctx, quiet)
		received, err := q.Receive(waiting, page)
		late := waiting.Err() != nil && ctx.Err() == nil
		cancel()
		if late && len(received) == 0 {
			break
		}
		if err != nil {
			return removed, fmt.Errorf("receive dead letters: %w", err)
		}
		for i := range received {
			m := received[i]
			seen, size = seen+1, size+len(m.Body)
			if locked[m.Sequence] {
				others = append(others, received[i:]...)
				return removed, fmt.Errorf("receive dead letters: the lock of number %d has ended before the chosen ones came: remove those at the front of the queue first, and repeat the command", m.Sequence)
			}
			if !sequences[m.Sequence] {
				locked[m.Sequence] = true
				others = append(others, m.withoutBody())
				continue
			}
			completing, cancel := context.WithTimeout(ctx, returnTimeout)
			err := q.Complete(completing, &m)
			cancel()
			if err != nil {
				others = append(others, received[i+1:]...)
				return removed, fmt.Errorf("complete dead letter %d: %w", m.Sequence, err)
			}
			delete(sequences, m.Sequence)
			removed++
		}
	}
	return removed, nil
}
