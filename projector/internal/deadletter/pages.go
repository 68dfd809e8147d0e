package deadletter

import (
	"context"
	"fmt"
)

const (
	// pageBytes is the approximate size of a page, and maxPage its largest number of
	// messages.
	pageBytes = 1 << 20
	maxPage   = 50
	// maxBytes bounds the messages at which a pass peeks, in bytes.
	maxBytes = 16 << 20
)

// pages peeks at the messages of a queue, page by page, and calls visit for each, until
// the end of the queue, limit messages or limitBytes. bounded says that the queue may have more.
func pages(ctx context.Context, q Queue, limit, limitBytes int, visit func(*Message)) (bounded bool, err error) {
	messages, size := 0, 0
	from, page := int64(0), 1
	for messages < limit && size < limitBytes {
		peeked, err := q.Peek(ctx, from, min(page, limit-messages))
		if err != nil {
			return false, fmt.Errorf("peek at dead letters after the first %d: %w", messages, err)
		}
		if len(peeked) == 0 {
			return false, nil
		}
		for i := range peeked {
			size += len(peeked[i].Body)
			from = max(from, peeked[i].Sequence+1)
			visit(&peeked[i])
		}
		messages += len(peeked)
		page = pageAfter(messages, size)
	}
	return true, nil
}

// pageAfter returns the number of messages of the next page, given the size of those before.
func pageAfter(messages, size int) int {
	return min(max(pageBytes*messages/max(size, 1), 1), maxPage)
}
