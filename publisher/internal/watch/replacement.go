package watch

// replaces reports whether an operation ends the collection that the stream follows, or
// replaces it by another one. The server sends an invalidate after each of the others; the
// first of them is enough. A position after any of them must not be saved: a stream that
// resumes there would follow the new collection without its earlier documents.
func replaces(operation string) bool {
	switch operation {
	case opDrop, opRename, opDropDatabase, opInvalidate:
		return true
	}
	return false
}
