package watch

import "time"

const (
	// firstBatchSize is the size of the first batch of a stream that may be far behind: the
	// server scans its oplog until it has found that many changes.
	firstBatchSize = 64
	// batchGrowth is the factor between two sizes.
	batchGrowth = 4
	// slowReply is the longest time of a reply that never reduces the size.
	slowReply = 10 * time.Second
)

// batchSizer chooses how many changes a stream requests. It begins with few, and increases
// the number while the server fills the batches. So a server that searches a long oplog for
// rare changes answers soon, and each answer moves the position. If a larger batch takes
// longer in proportion, the size decreases again. If replies take long whatever their size,
// it increases.
type batchSizer struct {
	size, max int32
	// took is how long the last full reply took.
	took time.Duration
}

func newBatchSizer(limit int32) batchSizer {
	return batchSizer{size: min(firstBatchSize, limit), max: limit}
}

// replied records a reply with changes and chooses the next size. It reports whether the
// reply was full, so that the server may have more changes ready.
func (b *batchSizer) replied(changes int, took time.Duration) (full bool) {
	if changes < int(b.size) {
		return false
	}
	if took > slowReply && took > 2*b.took {
		b.size = max(min(firstBatchSize, b.max), b.size/batchGrowth)
	} else {
		b.size = min(b.max, b.size*batchGrowth)
	}
	b.took = took
	return true
}
