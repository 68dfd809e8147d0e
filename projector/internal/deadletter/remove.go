package deadletter

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/rs/zerolog"
)

const (
	// quiet is how long [Remove] waits for the next message. If a message that was listed does
	// not come, another receiver has locked it.
	quiet = 2 * time.Second
	// receivePage is the number of messages requested at once. With more than one, the SDK
	// returns 20 ms after the first, and the link locks messages that are not received.
	receivePage = 1
	// returnTimeout bounds settling a message: removing it, or unlocking it at the end. If that
	// fails, the lock expires.
	returnTimeout = 5 * time.Second
)

// Peek calls visit for at most limit messages from the front of a queue, and for about 16
// MiB at most. It locks no message.
func Peek(ctx context.Context, q Queue, limit int, visit func(*Message)) error {
	return pages(ctx, q, limit, maxBytes, visit)
}

// PeekAll calls visit for every message of a queue, from the front. It locks no message.
func PeekAll(ctx context.Context, q Queue, visit func(*Message)) error {
	return pages(ctx, q, math.MaxInt, math.MaxInt, visit)
}

// Remove permanently removes the messages with the given sequence numbers among the first
// limit messages of a queue. It deletes the removed ones from sequences, and returns
// their number, also with an error. A message that another receiver has locked stays.
func Remove(ctx context.Context, q Queue, sequences map[int64]bool, limit int, logger zerolog.Logger) (removed int, err error) {
	var others []Message
	defer func() {
		for i := range others {
			returning, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnTimeout)
			e := q.Abandon(returning, &others[i])
			cancel()
			if e != nil {
				logger.Debug().Err(e).Int("messages", len(others)-i).Msg("dead letters not unlocked; their locks will expire")
				return
			}
		}
	}()
	for seen := 0; len(sequences) > 0 && seen < limit; {
		waiting, cancel := context.WithTimeout(ctx, quiet)
		received, err := q.Receive(waiting, receivePage)
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
			seen++
			if !sequences[m.Sequence] {
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
