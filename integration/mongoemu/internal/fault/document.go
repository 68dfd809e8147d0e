package fault

import "slices"

// Document orders the writes of some documents to fail, each with a write error of its
// own. The other statements of their commands are carried out, as on a sharded cluster
// of which one shard does not answer.
type Document struct {
	// Collection is the name of the documents' collection, in any database.
	Collection string `json:"collection"`
	// IDs are the _ids of the documents, strings all.
	IDs []string `json:"ids"`
	// Code is the error's code.
	Code int32 `json:"code"`
}

// AddDocuments puts a fault of documents in force, until Clear.
func (s *Set) AddDocuments(d Document) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.documents = append(s.documents, d)
}

// Document gives the code with which a write of a document fails, 0 for none.
func (s *Set) Document(collection, id string) int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.documents {
		if d.Collection == collection && slices.Contains(d.IDs, id) {
			return d.Code
		}
	}
	return 0
}
