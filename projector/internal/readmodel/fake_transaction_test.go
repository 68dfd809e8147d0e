package readmodel

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

type fakeTransaction struct {
	// snapshot has the versions at the start of the transaction, with their documents.
	snapshot map[string]map[string]record
	writes   map[string]map[string]bson.Raw
	// aborted says that the transaction has ended.
	aborted bool
}

type transactionKey struct{}

var errConflict = mongo.CommandError{Code: 112, Name: "WriteConflict", Message: "write conflict", Labels: []string{"TransientTransactionError"}}

// errBusy says that an open transaction has written the document. Plain writes wait for its
// end.
var errBusy = errors.New("a transaction is at the document")

// change changes the document with the id: in the transaction t, or immediately if t is
// nil.
func (f *fakeDatabase) change(t *fakeTransaction, collection string, id bson.RawValue, do func(old bson.Raw) (bson.Raw, error)) error {
	key := id.String()
	c := f.collections[collection]
	if c == nil {
		c = make(map[string]*record)
		f.collections[collection] = c
	}
	r := c[key]
	if r == nil {
		r = &record{id: id}
		c[key] = r
	}
	old := r.document
	if t != nil {
		if t.aborted {
			return mongo.CommandError{Code: 251, Name: "NoSuchTransaction", Labels: []string{"TransientTransactionError"}}
		}
		old = t.snapshot[collection][key].document
		if own, ok := t.writes[collection][key]; ok {
			old = own
		}
	}
	next, err := do(old)
	if err != nil {
		return err
	}
	if (old == nil) == (next == nil) && bytes.Equal(old, next) {
		return nil
	}
	if next != nil && f.refuse != nil {
		if err := f.refuse(collection, next); err != nil {
			return err
		}
	}
	if t == nil {
		if r.owner != nil {
			return errBusy
		}
		r.document, r.version = next, r.version+1
		return nil
	}
	if r.owner != nil && r.owner != t || r.version != t.snapshot[collection][key].version {
		return errConflict
	}
	r.owner = t
	if t.writes[collection] == nil {
		t.writes[collection] = make(map[string]bson.Raw)
	}
	t.writes[collection][key] = next
	return nil
}

// visible returns the documents of a collection as the transaction t sees them: its snapshot
// with its own changes. Without a transaction, these are the stored documents.
func (f *fakeDatabase) visible(t *fakeTransaction, collection string) []bson.Raw {
	var found []bson.Raw
	for key, r := range f.collections[collection] {
		document := r.document
		if t != nil {
			document = t.snapshot[collection][key].document
			if own, ok := t.writes[collection][key]; ok {
				document = own
			}
		}
		if document != nil {
			found = append(found, document)
		}
	}
	return found
}

func (f *fakeDatabase) transaction(ctx context.Context, do func(context.Context) error) error {
	if ctx.Value(transactionKey{}) != nil {
		panic("nested transaction")
	}
	t := &fakeTransaction{snapshot: make(map[string]map[string]record), writes: make(map[string]map[string]bson.Raw)}
	f.mu.Lock()
	for name, c := range f.collections {
		t.snapshot[name] = make(map[string]record, len(c))
		for key, r := range c {
			t.snapshot[name][key] = *r
		}
	}
	f.mu.Unlock()
	if err := do(context.WithValue(ctx, transactionKey{}, t)); err != nil {
		f.end(t, false)
		return err
	}
	_, err := send(ctx, func(ctx context.Context) (bool, error) {
		if err := f.arrive(ctx, "commit", ""); err != nil {
			f.end(t, false)
			return false, err
		}
		f.end(t, true)
		return true, f.reply(ctx)
	})
	if err != nil {
		return fmt.Errorf("%w: %w", errUncertain, err)
	}
	return nil
}

// end commits a transaction, or discards its changes.
func (f *fakeDatabase) end(t *fakeTransaction, commit bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t.aborted {
		return
	}
	t.aborted = true
	for name, writes := range t.writes {
		for key, document := range writes {
			r := f.collections[name][key]
			r.owner = nil
			if commit {
				r.document, r.version = document, r.version+1
			}
		}
	}
}
