package oplog

import "go.mongodb.org/mongo-driver/v2/bson"

// Kind is what an entry records.
type Kind byte

// The kinds of entries. Noop records everything that a change stream does not
// show: it only moves time.
const (
	Noop Kind = iota
	Insert
	Update
	Replace
	Delete
	Drop
	Rename
	DropDatabase
)

// Transaction says which transaction wrote an entry.
type Transaction struct {
	// Session is the lsid document as change events show it.
	Session []byte
	Number  int64
}

// Entry is one change. Its bytes are shared with the store and never modified.
type Entry struct {
	// TS is the cluster time; the operations of one transaction share it.
	TS bson.Timestamp
	// Index is the position within a transaction, 0 outside.
	Index int32
	Kind  Kind
	// First says that this entry is the oldest there can be: nothing was lost
	// before it.
	First    bool
	DB, Coll string
	// UUID is the collection's.
	UUID [16]byte
	// Doc is the whole document after an insert or a replacement, nil otherwise.
	Doc []byte
	// Key is the document key, {_id: …}; nil for changes of no document.
	Key []byte
	// Description is an update's updateDescription.
	Description []byte
	// ToDB and ToColl are a rename's target.
	ToDB, ToColl string
	// DropTarget is the UUID of the collection that a rename replaced.
	DropTarget *[16]byte
	// Wall is the server's clock in milliseconds since the epoch.
	Wall int64
	// Txn is nil outside transactions.
	Txn *Transaction
	// Message is a noop's reason, as local.oplog.rs shows it.
	Message string
}

// entryOverhead stands for an entry's fixed part in the log's size.
const entryOverhead = 160

func (e *Entry) size() int64 {
	return int64(entryOverhead + len(e.Doc) + len(e.Key) + len(e.Description))
}

// Compare orders two timestamps.
func Compare(a, b bson.Timestamp) int { return a.Compare(b) }
