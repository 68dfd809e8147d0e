package fault

import "slices"

// Document makes the writes of some documents fail, each with its own write error. The
// other statements of their commands succeed, as on a sharded cluster when one shard does
// not answer.
type Document struct {
	// Collection is the name of the documents' collection, in any database.
	Collection string `json:"collection"`
	// IDs are the _ids of the documents, which must be strings.
	IDs []string `json:"ids"`
	// Code is the code of the write error.
	Code int32 `json:"code"`
	// Reads says that find commands fail too that name one of the documents by its _id.
	Reads bool `json:"reads,omitempty"`
}

// AddDocuments adds a document fault, which stays until Clear.
func (s *Set) AddDocuments(d Document) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.documents = append(s.documents, d)
}

// Document returns the error code with which a write or a read of a document fails, or 0 if it
// does not fail.
func (s *Set) Document(collection, id string, reads bool) int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.documents {
		if d.Collection == collection && (d.Reads || !reads) && slices.Contains(d.IDs, id) {
			return d.Code
		}
	}
	return 0
}
