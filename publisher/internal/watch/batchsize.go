package watch

import "time"

const (
	// firstBatchSize is the size of the first batch of a stream that may be far behind:
	// the server scans its oplog until it has found as many changes.
	firstBatchSize = 64
	// batchGrowth is the factor between two sizes.
	batchGrowth = 4
	// slowReply is how long a reply may take before a larger batch has to prove itself.
	slowReply = 10 * time.Second
)

// batchSizer chooses how many changes a stream asks for. It begins with few and asks for
// ever more while the server fills the batches: a server that searches a long oplog for
// rare changes then answers, and gives a new position, before long. If a larger batch
// takes longer in proportion, the size falls again; if each reply takes long whatever
// its size, the size rises.
type batchSizer struct {
	size, most int32
	// took is how long the last full reply took.
	took time.Duration
}

func newBatchSizer(most int32) batchSizer {
	return batchSizer{size: min(firstBatchSize, most), most: most}
}

// replied notes a reply with changes. It reports whether the reply was full, so that the
// server may have more at hand, and chooses the next size.
func (b *batchSizer) replied(changes int, took time.Duration) (full bool) {
	if changes < int(b.size) {
		return false
	}
	if took > slowReply && took > 2*b.took {
		b.size = max(min(firstBatchSize, b.most), b.size/batchGrowth)
	} else {
		b.size = min(b.most, b.size*batchGrowth)
	}
	b.took = took
	return true
}
