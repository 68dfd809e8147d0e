package readmodel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// fakeDatabase is a replica set in memory, as far as this package needs one:
// single-document atomicity, unordered writes with errors by index, and
// transactions with snapshot isolation that conflict on writes.
type fakeDatabase struct {
	mu          sync.Mutex
	collections map[string]map[string]*record
	random      *rand.Rand
	// latency bounds the random delay before and after each command.
	latency time.Duration
	// lost and unanswered are the chances that a command does not arrive, and that
	// its reply does not.
	lost, unanswered float64
	// refuse gives the server's verdict on a document that is about to be stored.
	refuse func(collection string, document bson.Raw) error
	// onArrival runs before a command does.
	onArrival func(command, collection string)
	// calls counts commands by name.
	calls map[string]int
}

// record is a document with its past, as much as transactions need.
type record struct {
	id bson.RawValue
	// document is nil after a delete.
	document bson.Raw
	// version rises with each change.
	version int
	// owner is the transaction that has changed it and not yet ended.
	owner *fakeTransaction
}

type fakeTransaction struct {
	// snapshot is what the transaction reads: the versions at its start, with their
	// documents.
	snapshot map[string]map[string]record
	writes   map[string]map[string]bson.Raw
	// aborted says that the transaction has ended.
	aborted bool
}

var _ database = (*fakeDatabase)(nil)

func newFakeDatabase(seed uint64) *fakeDatabase {
	return &fakeDatabase{
		collections: make(map[string]map[string]*record),
		random:      rand.New(rand.NewPCG(seed, 1)),
		calls:       make(map[string]int),
	}
}

var (
	errLost       = mongo.CommandError{Code: 6, Name: "HostUnreachable", Message: "lost on the way", Labels: []string{"NetworkError"}}
	errUnanswered = mongo.CommandError{Code: 89, Name: "NetworkTimeout", Message: "no reply", Labels: []string{"NetworkError"}}
	errConflict   = mongo.CommandError{Code: 112, Name: "WriteConflict", Message: "write conflict", Labels: []string{"TransientTransactionError"}}
)

type transactionKey struct{}

// arrive is the way to the server: a delay and what may be lost.
func (f *fakeDatabase) arrive(ctx context.Context, command, collection string) error {
	f.mu.Lock()
	f.calls[command]++
	lost := f.random.Float64() < f.lost
	f.mu.Unlock()
	if err := f.delay(ctx); err != nil {
		return err
	}
	if lost {
		return errLost
	}
	if f.onArrival != nil {
		f.onArrival(command, collection)
	}
	return nil
}

// reply is the way back.
func (f *fakeDatabase) reply(ctx context.Context) error {
	f.mu.Lock()
	unanswered := f.random.Float64() < f.unanswered
	f.mu.Unlock()
	if err := f.delay(ctx); err != nil {
		return err
	}
	if unanswered {
		return errUnanswered
	}
	return nil
}

func (f *fakeDatabase) delay(ctx context.Context) error {
	if f.latency == 0 {
		return ctx.Err()
	}
	f.mu.Lock()
	d := time.Duration(f.random.Int64N(int64(f.latency)))
	f.mu.Unlock()
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// send carries a command out even if ctx ends meanwhile: what is on its way arrives.
func send[T any](ctx context.Context, command func(context.Context) (T, error)) (T, error) {
	type reply struct {
		value T
		err   error
	}
	replies := make(chan reply, 1)
	go func() {
		value, err := command(context.WithoutCancel(ctx))
		replies <- reply{value, err}
	}()
	select {
	case r := <-replies:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

func (f *fakeDatabase) find(ctx context.Context, collection string, filter, projection bson.Raw, _ int) ([]bson.Raw, error) {
	return send(ctx, func(ctx context.Context) ([]bson.Raw, error) { return f.findNow(ctx, collection, filter, projection) })
}

func (f *fakeDatabase) findNow(ctx context.Context, collection string, filter, projection bson.Raw) ([]bson.Raw, error) {
	if err := f.arrive(ctx, "find", collection); err != nil {
		return nil, err
	}
	f.mu.Lock()
	var found []bson.Raw
	for _, r := range f.collections[collection] {
		document := r.document
		if document == nil || !matches(filter, document) {
			continue
		}
		if projection != nil {
			document = build(64).raw2(document.Lookup(fieldID), fieldID).raw2(document.Lookup(fieldLastEventID), fieldLastEventID).raw()
		}
		found = append(found, bytes.Clone(document))
	}
	f.mu.Unlock()
	return found, f.reply(ctx)
}

func (f *fakeDatabase) insert(ctx context.Context, collection string, documents []bson.Raw) error {
	_, err := f.write(ctx, "insert", collection, len(documents), func(t *fakeTransaction, i int) (int, error) {
		return 1, f.insertOne(t, collection, bytes.Clone(documents[i]))
	})
	return err
}

func (f *fakeDatabase) insertOne(t *fakeTransaction, collection string, document bson.Raw) error {
	id := document.Lookup(fieldID)
	return f.change(t, collection, id, func(old bson.Raw) (bson.Raw, error) {
		if old != nil {
			return nil, duplicateID(collection, id)
		}
		return document, nil
	})
}

func duplicateID(collection string, id bson.RawValue) error {
	raw, err := bson.Marshal(bson.D{{Key: "code", Value: 11000}, {Key: "keyPattern", Value: bson.D{{Key: "_id", Value: 1}}}})
	if err != nil {
		panic(err)
	}
	return mongo.WriteError{Code: 11000, Message: fmt.Sprintf("E11000 duplicate key error collection: test.%s index: _id_ dup key: %s", collection, id), Raw: raw}
}

func (f *fakeDatabase) update(ctx context.Context, collection string, updates []update) (int, error) {
	return f.write(ctx, "update", collection, len(updates), func(t *fakeTransaction, i int) (int, error) {
		u := updates[i]
		id := u.filter.Lookup(fieldID)
		n := 0
		err := f.change(t, collection, id, func(old bson.Raw) (bson.Raw, error) {
			if old != nil && matches(u.filter, old) {
				n = 1
				return applyUpdate(old, u.change), nil
			}
			if !u.upsert {
				return old, nil
			}
			if old != nil {
				return nil, duplicateID(collection, id)
			}
			n = 1
			return applyUpdate(u.filter, u.change), nil
		})
		return n, err
	})
}

func (f *fakeDatabase) remove(ctx context.Context, collection string, filters []bson.Raw) (int, error) {
	return f.write(ctx, "delete", collection, len(filters), func(t *fakeTransaction, i int) (int, error) {
		n := 0
		err := f.change(t, collection, filters[i].Lookup(fieldID), func(old bson.Raw) (bson.Raw, error) {
			if old != nil && matches(filters[i], old) {
				n = 1
				return nil, nil
			}
			return old, nil
		})
		return n, err
	})
}

// write carries out n operations, in any order, and gives how many documents it
// found.
func (f *fakeDatabase) write(ctx context.Context, command, collection string, n int, one func(t *fakeTransaction, i int) (int, error)) (int, error) {
	return send(ctx, func(ctx context.Context) (int, error) {
		if err := f.arrive(ctx, command, collection); err != nil {
			return 0, err
		}
		total, err := f.writeNow(ctx, collection, n, one)
		if err := f.reply(ctx); err != nil {
			return 0, err
		}
		return total, err
	})
}

func (f *fakeDatabase) writeNow(ctx context.Context, collection string, n int, one func(t *fakeTransaction, i int) (int, error)) (int, error) {
	t, _ := ctx.Value(transactionKey{}).(*fakeTransaction)
	f.mu.Lock()
	order := f.random.Perm(n)
	f.mu.Unlock()
	var exception mongo.BulkWriteException
	total := 0
	for _, i := range order {
		var found int
		var err error
		for {
			f.mu.Lock()
			found, err = one(t, i)
			f.mu.Unlock()
			if !errors.Is(err, errBusy) {
				break
			}
			<-time.After(100 * time.Microsecond)
		}
		var e mongo.WriteError
		switch {
		case errors.As(err, &e):
			e.Index = i
			exception.WriteErrors = append(exception.WriteErrors, mongo.BulkWriteError{WriteError: e})
		case err != nil:
			return 0, err
		default:
			total += found
		}
		if t != nil && err != nil {
			f.end(t, false)
			break
		}
	}
	if len(exception.WriteErrors) > 0 {
		slices.SortFunc(exception.WriteErrors, func(a, b mongo.BulkWriteError) int { return a.Index - b.Index })
		return total, fmt.Errorf("write to %s: %w", collection, exception)
	}
	return total, nil
}

// errBusy says that a transaction is at the document; others wait for its end.
var errBusy = errors.New("a transaction is at the document")

// change changes the document under id, in t or at once.
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

// end commits a transaction or takes back what it has done.
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

// documents gives a collection's content by _id.
func (f *fakeDatabase) documents(collection string) map[string]bson.Raw {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := make(map[string]bson.Raw)
	for _, r := range f.collections[collection] {
		if r.document != nil {
			if id, ok := r.id.StringValueOK(); ok {
				found[id] = r.document
			} else {
				found[r.id.Document().Lookup(fieldProjection).StringValue()+"/"+r.id.Document().Lookup(fieldAggregateID).StringValue()] = r.document
			}
		}
	}
	return found
}

// raw2 appends a value, if there is one.
func (b *builder) raw2(v bson.RawValue, name string) *builder {
	if v.Type != 0 {
		b.dst = append(append(append(append(b.dst, byte(v.Type)), name...), 0), v.Value...)
	}
	return b
}

// matches understands equality, $in and $lte.
func matches(filter, document bson.Raw) bool {
	elements, err := filter.Elements()
	if err != nil {
		panic(err)
	}
	for _, e := range elements {
		value, err := document.LookupErr(e.Key())
		if err != nil || !matchesValue(e.Value(), value) {
			return false
		}
	}
	return true
}

func matchesValue(want, got bson.RawValue) bool {
	if condition, ok := want.DocumentOK(); ok {
		elements, err := condition.Elements()
		if err != nil {
			panic(err)
		}
		if strings.HasPrefix(elements[0].Key(), "$") {
			operand := elements[0].Value()
			switch elements[0].Key() {
			case "$in":
				values, err := operand.Array().Values()
				if err != nil {
					panic(err)
				}
				return slices.ContainsFunc(values, func(v bson.RawValue) bool { return v.Equal(got) })
			case "$lte":
				return got.AsInt64() <= operand.AsInt64()
			}
			panic("unknown operator " + elements[0].Key())
		}
	}
	return want.Equal(got)
}

// applyUpdate understands $set, $unset, $push with $each, $max and $inc, on
// top-level fields, none of them twice.
func applyUpdate(old, change bson.Raw) bson.Raw {
	var document, operators bson.D
	if err := errors.Join(bson.Unmarshal(old, &document), bson.Unmarshal(change, &operators)); err != nil {
		panic(err)
	}
	touched := make(map[string]bool)
	for _, operator := range operators {
		for _, e := range operator.Value.(bson.D) {
			if touched[e.Key] || strings.ContainsAny(e.Key, ".$") {
				panic("conflicting or unusable path " + e.Key)
			}
			touched[e.Key] = true
			at := slices.IndexFunc(document, func(field bson.E) bool { return field.Key == e.Key })
			var value any
			if at >= 0 {
				value = document[at].Value
			}
			switch operator.Key {
			case "$unset":
				if at >= 0 {
					document = slices.Delete(document, at, at+1)
				}
				continue
			case "$set":
				value = e.Value
			case "$push":
				array, ok := value.(bson.A)
				if !ok && at >= 0 {
					panic("$push to what is no array")
				}
				value = append(array, e.Value.(bson.D)[0].Value.(bson.A)...)
			case "$max":
				if at < 0 || value.(int64) < e.Value.(int64) {
					value = e.Value
				}
			case "$inc":
				n, _ := value.(int64)
				value = n + e.Value.(int64)
			default:
				panic("unknown operator " + operator.Key)
			}
			if at >= 0 {
				document[at].Value = value
			} else {
				document = append(document, bson.E{Key: e.Key, Value: value})
			}
		}
	}
	next, err := bson.Marshal(document)
	if err != nil {
		panic(err)
	}
	return next
}
