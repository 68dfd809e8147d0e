package readmodel

import (
	"context"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// budget bounds the bytes of documents between their load and the write of their fold. A
// load takes its share before it reads. A share that is larger than the whole budget is
// granted if nothing else is taken.
type budget struct {
	limit int

	mu   sync.Mutex
	used int
	// freed is closed when bytes are given back, and then replaced.
	freed chan struct{}
}

func newBudget(limit int) *budget { return &budget{limit: limit, freed: make(chan struct{})} }

// take takes n bytes, if they are free.
func (b *budget) take(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used > 0 && b.used+n > b.limit {
		return false
	}
	b.used += n
	return true
}

// adjust corrects an estimate that was taken to the real size.
func (b *budget) adjust(by int) {
	if by <= 0 {
		b.give(-by)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used += by
}

// give returns n bytes.
func (b *budget) give(n int) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	close(b.freed)
	b.freed = make(chan struct{})
}

// watch gives a channel that closes at the next give. The caller gets it before it tries to
// take, so that it misses no give.
func (b *budget) watch() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.freed
}

// waitFor waits for a give.
func waitFor(ctx context.Context, freed <-chan struct{}) error {
	select {
	case <-freed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// firstSize is the assumed size of a collection's first documents.
const firstSize = 32 << 10

// sizes estimate the size of a collection's documents from those that were read. The
// zero value is ready.
type sizes struct {
	mu           sync.Mutex
	byCollection map[string]int
}

// of is the estimate for a collection, in bytes and positive.
func (s *sizes) of(collection string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if size, ok := s.byCollection[collection]; ok {
		return size
	}
	return firstSize
}

// learn learns from a page of documents. The estimate rises immediately and falls slowly,
// because a low estimate costs memory and a high one only a few requests.
func (s *sizes) learn(collection string, documents []bson.Raw) {
	if len(documents) == 0 {
		return
	}
	bytes := 0
	for _, document := range documents {
		bytes += len(document)
	}
	mean := bytes/len(documents) + 1
	last := s.of(collection)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byCollection == nil {
		s.byCollection = make(map[string]int)
	}
	s.byCollection[collection] = max(mean, last/4)
}
