package mongox

import "go.mongodb.org/mongo-driver/v2/bson"

// slabBytes bounds the bytes of other documents that a kept document keeps in memory.
const slabBytes = 4 << 10

// Slab copies the documents of a reply: the driver's bytes are valid only until its next call.
// Several copies share one allocation. The zero value is ready for use.
type Slab struct{ free []byte }

// Copy copies a document. more says that further documents follow.
func (s *Slab) Copy(document bson.Raw, more bool) bson.Raw {
	if len(document) > len(s.free) {
		size := len(document)
		if more {
			size = max(size, slabBytes)
		}
		s.free = make([]byte, size)
	}
	n := copy(s.free, document)
	copied := s.free[:n:n]
	s.free = s.free[n:]
	return copied
}
