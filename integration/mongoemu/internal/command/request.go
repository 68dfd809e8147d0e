package command

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/expr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/session"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/wire"
)

// Request is a command as it came, and what its generic fields say.
type Request struct {
	Name    string
	DB      string
	Body    []byte
	value   bsonraw.Value // of the first field
	command spec
	conn    *Conn
	repeat  int
	exhaust bool
	lists   []wire.Sequence

	lsid       []byte
	session    *session.Session
	number     *int64
	autocommit *bool
	start      bool
	tx         *store.Tx
	retryable  bool
	maxTime    time.Duration
	concern    writeConcern
	readLevel  string
	after      *bson.Timestamp
	changes    bool // the command is of a change stream
	engine     *Engine
	before     uint64 // the log's end before the command
}

// note remembers whether the command's connection has written.
func (r *Request) note(e *Engine) {
	r.conn.wrote = r.conn.wrote || r.command.retryable && e.Store.Log().End() > r.before
}

// unwritten reports whether it is certain that the command wrote nothing: the
// server knows where the connection wrote before, and nothing is newer than when
// the command came.
func (r *Request) unwritten() bool {
	return r.engine != nil && r.conn.wrote && r.engine.Store.Log().End() == r.before
}

// parseRequest finds the command's name and database. The request is never nil.
func parseRequest(conn *Conn, m *wire.Message) (*Request, error) {
	r := &Request{conn: conn, Body: m.Body, lists: m.Sequences}
	it := bsonraw.NewIter(m.Body)
	if !it.Next() {
		return r, mongoerr.New(mongoerr.CommandNotFound, "no command was given")
	}
	r.Name, r.value = string(it.Key()), it.Value()
	if m.Opcode == wire.OpQuery {
		db, ok := cutSuffix(m.Collection, ".$cmd")
		if !ok || !handshakes(r.Name) {
			return r, mongoerr.New(352, "Unsupported OP_QUERY command: %s. The client driver may require an upgrade.", r.Name)
		}
		r.DB = db
		return r, nil
	}
	db, ok := bsonraw.Lookup(m.Body, "$db")
	if !ok || db.Type != bsoncore.TypeString {
		return r, mongoerr.New(40571, "OP_MSG requests require a $db argument")
	}
	r.DB = string(bsonraw.Text(db))
	return r, nil
}

func cutSuffix(s, suffix string) (string, bool) {
	if len(s) < len(suffix) || s[len(s)-len(suffix):] != suffix {
		return s, false
	}
	return s[:len(s)-len(suffix)], true
}

func handshakes(name string) bool {
	return name == "isMaster" || name == "ismaster" || name == "hello"
}

// generic reads the fields that any command may have.
func (r *Request) generic(e *Engine) error {
	first := true
	for it := bsonraw.NewIter(r.Body); it.Next(); first = false {
		if first {
			continue
		}
		if err := r.genericField(e, string(it.Key()), it.Value()); err != nil {
			return err
		}
	}
	if r.number != nil && r.lsid == nil {
		return mongoerr.New(mongoerr.InvalidOptions, "Transaction number requires a session ID to also be specified")
	}
	if r.after != nil {
		if r.after.After(e.Store.Clock().Last()) {
			return mongoerr.New(mongoerr.InvalidOptions, "readConcern afterClusterTime value must not be greater than the current clusterTime. Requested clusterTime: %v; current clusterTime: %v", *r.after, e.Store.Clock().Last())
		}
		if err := e.Store.Reach(*r.after); err != nil {
			return err
		}
	}
	if r.lsid != nil {
		s, err := e.Sessions.Get(r.lsid)
		r.session = s
		return err
	}
	return nil
}

func (r *Request) genericField(e *Engine, key string, v bsonraw.Value) error {
	switch key {
	case "lsid":
		if v.Type != bsoncore.TypeEmbeddedDocument {
			return wrongType(r.Name, key, v, "object")
		}
		r.lsid = v.Data
	case "txnNumber":
		n, ok := v.Int64OK()
		if !ok {
			return wrongType(r.Name, key, v, "long")
		}
		r.number = &n
	case "autocommit":
		b, ok := v.BooleanOK()
		if !ok || b {
			return mongoerr.New(mongoerr.InvalidOptions, "autocommit can only be false")
		}
		r.autocommit = &b
	case "startTransaction":
		r.start = bsonraw.Truthy(v)
	case "maxTimeMS":
		n, ok := bsonraw.Int64(v)
		if !ok || n < 0 {
			return mongoerr.New(mongoerr.BadValue, "%s must be a non-negative integer: %s", key, bsonraw.Format(v))
		}
		r.maxTime = time.Duration(n) * time.Millisecond
	case "writeConcern":
		return r.concern.parse(v)
	case "readConcern":
		return r.readConcern(v)
	case "$clusterTime":
		if v.Type == bsoncore.TypeEmbeddedDocument {
			if ct, ok := bsonraw.Lookup(v.Data, "clusterTime"); ok && ct.Type == bsoncore.TypeTimestamp {
				return observe(e, ct)
			}
		}
		return wrongType(r.Name, key, v, "object")
	case "apiVersion":
		if v.Type != bsoncore.TypeString || string(bsonraw.Text(v)) != "1" {
			return mongoerr.New(322, "API version must be \"1\"")
		}
	case "apiStrict", "apiDeprecationErrors":
		if bsonraw.Truthy(v) {
			return mongoerr.Lacking("%s", key)
		}
	}
	return nil
}

// maxDrift is how far ahead a client's cluster time may be, the server's default
// of a year.
const maxDrift = 365 * 24 * 3600

func observe(e *Engine, v bsonraw.Value) error {
	t, i := v.Timestamp()
	if int64(t) > e.Now().Unix()+maxDrift {
		return mongoerr.New(mongoerr.ClusterTimeFailsRateLimiter, "New cluster time, %d, is too far from this node's wall clock time, %d.", t, e.Now().Unix())
	}
	e.Store.Clock().Observe(bson.Timestamp{T: t, I: i})
	return nil
}

func (r *Request) readConcern(v bsonraw.Value) error {
	if v.Type != bsoncore.TypeEmbeddedDocument {
		return wrongType(r.Name, "readConcern", v, "object")
	}
	for it := bsonraw.NewIter(v.Data); it.Next(); {
		switch key := string(it.Key()); key {
		case "level":
			if it.Value().Type != bsoncore.TypeString {
				return wrongType(r.Name, "readConcern.level", it.Value(), "string")
			}
			switch r.readLevel = string(bsonraw.Text(it.Value())); r.readLevel {
			case "local", "available", "majority", "linearizable", "snapshot":
			default:
				return mongoerr.New(mongoerr.BadValue, "Enumeration value '%s' for field 'readConcern.level' is not a valid value.", r.readLevel)
			}
		case "afterClusterTime":
			if it.Value().Type != bsoncore.TypeTimestamp {
				return wrongType(r.Name, "readConcern.afterClusterTime", it.Value(), "timestamp")
			}
			t, i := it.Value().Timestamp()
			r.after = &bson.Timestamp{T: t, I: i}
		case "provenance":
		default:
			return mongoerr.Lacking("the read concern option %q", key)
		}
	}
	return nil
}

// isGeneric reports whether a field may stand in any command.
func isGeneric(key string) bool {
	switch key {
	case "$db", "lsid", "txnNumber", "autocommit", "startTransaction", "maxTimeMS", "writeConcern", "readConcern",
		"$clusterTime", "$readPreference", "comment", "apiVersion", "apiStrict", "apiDeprecationErrors", "stmtId", "stmtIds":
		return true
	}
	return false
}

// options calls set for each field of the command that is not generic. A field
// that set does not know is an error.
func (r *Request) options(set func(key string, v bsonraw.Value) (known bool, err error)) error {
	it := bsonraw.NewIter(r.Body)
	it.Next()
	for it.Next() {
		key := string(it.Key())
		if isGeneric(key) {
			continue
		}
		known, err := set(key, it.Value())
		if err != nil {
			return err
		}
		if !known {
			return mongoerr.New(40415, "BSON field '%s.%s' is an unknown field.", r.Name, key)
		}
	}
	return nil
}

// noOptions accepts only generic fields.
func (r *Request) noOptions() error {
	return r.options(func(string, bsonraw.Value) (bool, error) { return false, nil })
}

// collection is the collection that the command's first field names.
func (r *Request) collection() (store.Namespace, error) {
	if r.value.Type != bsoncore.TypeString {
		return store.Namespace{}, mongoerr.New(mongoerr.InvalidNamespace, "collection name has invalid type %s", bsonraw.TypeName(r.value.Type))
	}
	ns := store.Namespace{DB: r.DB, Coll: string(bsonraw.Text(r.value))}
	if ns.Coll == "" {
		return ns, mongoerr.New(mongoerr.InvalidNamespace, "Invalid namespace specified '%s.'", r.DB)
	}
	return ns, nil
}

// list is a command's list of documents: a section of its own, or an array in
// the body.
func (r *Request) list(name string) ([][]byte, error) {
	for _, s := range r.lists {
		if s.Name == name {
			return s.Docs, nil
		}
	}
	v, ok := bsonraw.Lookup(r.Body, name)
	if !ok {
		return nil, mongoerr.New(40414, "BSON field '%s.%s' is missing but a required field", r.Name, name)
	}
	if v.Type != bsoncore.TypeArray {
		return nil, wrongType(r.Name, name, v, "array")
	}
	var docs [][]byte
	for it := bsonraw.NewIter(v.Data); it.Next(); {
		if it.Value().Type != bsoncore.TypeEmbeddedDocument {
			return nil, wrongType(r.Name, name+"."+string(it.Key()), it.Value(), "object")
		}
		docs = append(docs, it.Value().Data)
	}
	return docs, nil
}

// vars are what the command's expressions may refer to.
func (r *Request) vars(e *Engine) expr.Vars { return expr.Vars{Now: e.Now().UnixMilli()} }

func wrongType(command, field string, v bsonraw.Value, want string) error {
	return mongoerr.New(mongoerr.TypeMismatch, "BSON field '%s.%s' is the wrong type '%s', expected type '%s'", command, field, bsonraw.TypeName(v.Type), want)
}

// join takes the command into its transaction or makes it a retryable write;
// release gives the session back.
func (r *Request) join(ctx context.Context) (release func(), err error) {
	switch {
	case r.autocommit != nil && r.number == nil:
		return nil, mongoerr.New(mongoerr.InvalidOptions, "'autocommit' field requires a transaction number to also be specified")
	case r.start && r.autocommit == nil:
		return nil, mongoerr.New(mongoerr.InvalidOptions, "Specifying 'startTransaction' requires 'autocommit:false'")
	case r.number == nil:
		if r.readLevel == "snapshot" {
			return nil, mongoerr.Lacking("read concern snapshot outside transactions")
		}
		return func() {}, nil
	}
	if err := r.session.Acquire(ctx); err != nil {
		return nil, err
	}
	if err := r.enter(); err != nil {
		r.session.Release()
		return nil, err
	}
	return r.session.Release, nil
}

func (r *Request) enter() (err error) {
	switch {
	case r.autocommit == nil && !r.command.retryable:
		return mongoerr.New(50768, "txnNumber may only be provided for multi-document transactions and retryable write commands. autocommit:false was not provided, and %s is not a retryable write command.", r.Name)
	case r.autocommit == nil:
		r.retryable = true
		return r.session.BeginRetryable(*r.number)
	case r.command.ends:
		return nil
	case !r.command.transaction:
		if !r.start {
			r.session.Fail()
		}
		return mongoerr.New(mongoerr.OperationNotSupportedInTxn, "Cannot run '%s' in a multi-document transaction.", r.Name)
	case r.start:
		r.tx, err = r.session.Start(*r.number)
	default:
		if r.readLevel != "" {
			return mongoerr.New(mongoerr.InvalidOptions, "Only the first command in a transaction may specify a readConcern")
		}
		r.tx, err = r.session.Continue(*r.number)
	}
	return err
}

// failed aborts the transaction of a command that did not succeed.
func (r *Request) failed() {
	if r.tx != nil {
		r.session.Fail()
	}
}
