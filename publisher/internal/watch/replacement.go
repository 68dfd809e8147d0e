package watch

// ReplacedError is the error of a stream whose collection has ended. It matches
// [ErrInvalidated].
type ReplacedError struct {
	// After is the position immediately after the end. A stream that starts there carries
	// the changes of the collections that have had the name since then, but not the documents
	// that a collection had before it was renamed to that name.
	After Position
}

// Error is the text of [ErrInvalidated].
func (*ReplacedError) Error() string { return ErrInvalidated.Error() }

// Is makes the error match [ErrInvalidated].
func (*ReplacedError) Is(target error) bool { return target == ErrInvalidated }

// replaces reports whether an operation ends the collection that the stream follows, or
// replaces it by another one. The server sends an invalidate after each of the others. A
// position after any of them must not be saved: a stream that resumes there would follow the
// new collection without its earlier documents.
func replaces(operation string) bool {
	switch operation {
	case opDrop, opRename, opDropDatabase, opInvalidate:
		return true
	}
	return false
}
