package readmodel

import (
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
)

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
