package oplog

import "go.mongodb.org/mongo-driver/v2/bson"

// Kind is the kind of change that an entry records.
type Kind byte

// These are the kinds of entries. Noop records everything that change streams do not
// show; it only advances the cluster time.
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

// Transaction identifies the transaction that wrote an entry.
type Transaction struct {
	// Session is the lsid document as change events contain it.
	Session []byte
	Number  int64
}

// Entry is one change. Its bytes are shared with the store and never modified.
type Entry struct {
	// TS is the cluster time. All entries of one transaction have the same.
	TS bson.Timestamp
	// Index is the position within the transaction; 0 outside transactions.
	Index int32
	Kind  Kind
	// First says that the log began with this entry: nothing was dropped before it.
	First    bool
	DB, Coll string
	// UUID is the UUID of the collection.
	UUID [16]byte
	// Doc is the whole document after an insert or a replacement; nil for other kinds.
	Doc []byte
	// Key is the document key, {_id: …}; nil for changes that have no document.
	Key []byte
	// Description is the updateDescription of an update.
	Description []byte
	// ToDB and ToColl are the new name in a rename.
	ToDB, ToColl string
	// DropTarget is the UUID of the collection that a rename replaced; nil if it replaced
	// none.
	DropTarget *[16]byte
	// Wall is the server's clock in milliseconds since the epoch.
	Wall int64
	// Txn is nil outside transactions.
	Txn *Transaction
	// Message is the reason for a noop, as local.oplog.rs shows it.
	Message string
}

// entryOverhead is the assumed size in bytes of an entry without its documents.
const entryOverhead = 160

func (e *Entry) size() int64 {
	return int64(entryOverhead + len(e.Doc) + len(e.Key) + len(e.Description))
}

// Compare compares two timestamps.
func Compare(a, b bson.Timestamp) int { return a.Compare(b) }
