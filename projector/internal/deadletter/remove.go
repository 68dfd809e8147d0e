package deadletter

import (
	"context"
	"fmt"

	"github.com/rs/zerolog"
)

// Peek calls visit for at most limit messages from the front of a queue, and for about 16
// MiB at most. It locks no message.
func Peek(ctx context.Context, q Queue, limit int, visit func(*Message)) error {
	return pages(ctx, q, limit, visit)
}

// Remove permanently removes the messages with the given sequence numbers among the first
// limit messages of a queue. It deletes the removed ones from sequences, and returns
// their number, also with an error. A message that another receiver has locked stays.
func Remove(ctx context.Context, q Queue, sequences map[int64]bool, limit int, logger zerolog.Logger) (removed int, err error) {
	return remove(ctx, q, sequences, limit, logger, func(string) {})
}

// remove receives messages from the front of the queue until it has seen the wanted ones,
// completes these and unlocks the others. It receives limit messages or maxBytes at most, and
// calls done with the reason of each removed message.
func remove(ctx context.Context, q Queue, wanted map[int64]bool, limit int, logger zerolog.Logger, done func(reason string)) (removed int, err error) {
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
	for seen, size := 0, 0; len(wanted) > 0 && seen < limit && size < maxBytes; {
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
			seen, size = seen+1, size+len(m.Body)
			if !wanted[m.Sequence] {
				m.Body = nil
				others = append(others, m)
				continue
			}
			if err := q.Complete(ctx, &m); err != nil {
				others = append(others, received[i+1:]...)
				return removed, fmt.Errorf("complete dead letter %d: %w", m.Sequence, err)
			}
			delete(wanted, m.Sequence)
			removed++
			done(m.Reason)
		}
	}
	return removed, nil
}
