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
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/update"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/wire"
)

// Request is a command and its parsed generic fields.
type Request struct {
	Name    string
	DB      string
	Body    []byte
	value   bsonraw.Value // value of the first field
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
	changes    bool // the command opens or reads a change stream
	engine     *Engine
	before     uint64 // end of the log before the command
	now        int64  // value of $$NOW for the whole command
}

// note records whether the command's connection has written something.
func (r *Request) note(e *Engine) {
	r.conn.wrote = r.conn.wrote || r.command.retryable && e.Store.Log().End() > r.before
}

// unwritten reports whether the command certainly wrote nothing: the connection has
// written before, and the log has no new entry since the command arrived.
func (r *Request) unwritten() bool {
	return r.engine != nil && r.conn.wrote && r.engine.Store.Log().End() == r.before
}

// maxCommand is the size limit of a command without its sequences, and of each document of these, in
// bytes: BSONObjMaxInternalSize in src/mongo/bson/util/builder.h.
const maxCommand = update.MaxDocument + 16<<10

func checkSize(doc []byte, first string) error {
	if n := len(doc); n > maxCommand {
		return mongoerr.New(mongoerr.BSONObjectTooLarge, "BSONObj size: %d (0x%X) is invalid. Size must be between 0 and %d(16MB) First element: %s", n, n, maxCommand, first)
	}
	return nil
}

// parseRequest parses the command's name and database. It never returns a nil Request.
func parseRequest(conn *Conn, m *wire.Message) (*Request, error) {
	r := &Request{conn: conn, Body: m.Body, lists: m.Sequences}
	it := bsonraw.NewIter(m.Body)
	if !it.Next() {
		return r, mongoerr.New(mongoerr.CommandNotFound, "no command was given")
	}
	r.Name, r.value = string(it.Key()), it.Value()
	if err := checkSize(m.Body, r.Name); err != nil {
		return r, err
	}
	for _, list := range m.Sequences {
		for _, doc := range list.Docs {
			if err := checkSize(doc, list.Name); err != nil {
				return r, err
			}
		}
	}
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
	return r, store.CheckDatabase(r.DB)
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

// generic parses the fields that all commands accept.
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
		switch {
		case !ok:
			return wrongType(r.Name, key, v, "long")
		case n < 0:
			return mongoerr.New(mongoerr.InvalidOptions, "Transaction number cannot be negative")
		}
		r.number = &n
	case "autocommit", "startTransaction":
		return r.transactionFlag(key, v)
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

// transactionFlag parses autocommit, which must be false, or startTransaction, which must
// be true.
func (r *Request) transactionFlag(key string, v bsonraw.Value) error {
	b, ok := v.BooleanOK()
	switch {
	case !ok:
		return wrongType(r.Name, key, v, "bool")
	case b != (key == "startTransaction"):
		return mongoerr.New(mongoerr.InvalidOptions, "Specifying %s=%t is not allowed.", key, b)
	case key == "autocommit":
		r.autocommit = &b
	default:
		r.start = true
	}
	return nil
}

// maxDrift is how many seconds a client's cluster time may be ahead of the server's
// clock. It is the server's default of one year.
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

// vars returns the variables of the command's expressions.
func (r *Request) vars() expr.Vars { return expr.Vars{Now: r.now} }

// join makes the command part of its transaction, or a retryable write. The caller must
// call release at the end to release the session.
func (r *Request) join(ctx context.Context) (release func(), err error) {
	switch {
	case r.autocommit != nil && r.number == nil:
		return nil, mongoerr.New(mongoerr.InvalidOptions, "'autocommit' field requires a transaction number to also be specified")
	case r.start && r.autocommit == nil:
		return nil, mongoerr.New(mongoerr.InvalidOptions, "Specifying 'startTransaction' requires 'autocommit:false'")
	case r.number == nil:
		return func() {}, r.concerns()
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

// concerns checks the read and write concern of a command outside transactions. Only some
// commands support them.
func (r *Request) concerns() error {
	switch {
	case r.readLevel != "" && r.readLevel != "local" && !r.command.levels:
		return mongoerr.New(mongoerr.InvalidOptions, "Command %s does not support { readConcern: { level: \"%s\" } } :: caused by :: read concern not supported", r.Name, r.readLevel)
	case r.readLevel == "snapshot":
		return mongoerr.Lacking("read concern snapshot outside transactions")
	case r.concern.given && !r.command.writes:
		return mongoerr.New(mongoerr.InvalidOptions, "Command does not support writeConcern")
	}
	return nil
}

// inTransaction returns an error if a command has options that are not allowed inside a
// transaction.
func (r *Request) inTransaction() error {
	switch {
	case r.DB == "admin" || r.DB == "config" || r.DB == "local":
		return mongoerr.New(mongoerr.OperationNotSupportedInTxn, "Cannot run command against the '%s' database in a transaction.", r.DB)
	case r.concern.given:
		return mongoerr.New(mongoerr.InvalidOptions, "writeConcern is not allowed within a multi-statement transaction")
	case r.readLevel == "available" || r.readLevel == "linearizable":
		return mongoerr.New(mongoerr.InvalidOptions, "The readConcern level must be either 'local' (default), 'majority' or 'snapshot' in order to run in a transaction")
	case r.readLevel != "" && !r.start:
		return mongoerr.New(mongoerr.InvalidOptions, "Only the first command in a transaction may specify a readConcern")
	}
	return nil
}

func (r *Request) enter() (err error) {
	switch {
	case r.autocommit == nil && !r.command.retryable:
		return mongoerr.New(50768, "txnNumber may only be provided for multi-document transactions and retryable write commands. autocommit:false was not provided, and %s is not a retryable write command.", r.Name)
	case r.autocommit == nil:
		if err := r.concerns(); err != nil {
			return err
		}
		r.retryable = true
		return r.session.BeginRetryable(*r.number)
	case r.command.ends:
		return nil
	case !r.command.transaction:
		if !r.start {
			r.session.Fail()
		}
		return mongoerr.New(mongoerr.OperationNotSupportedInTxn, "Cannot run '%s' in a multi-document transaction.", r.Name)
	}
	if err := r.inTransaction(); err != nil {
		return err
	}
	if r.start {
		r.tx, err = r.session.Start(*r.number)
	} else {
		r.tx, err = r.session.Continue(*r.number)
	}
	return err
}

// snapshot returns what the command reads: the snapshot of its transaction, what a majority
// has, or nil for the newest state.
func (r *Request) snapshot() *store.Tx {
	if r.tx == nil && r.readLevel == "majority" {
		return r.engine.Store.Majority()
	}
	return r.tx
}

// lock waits for the intent lock of a command on a collection. Change streams read the oplog
// and no collection.
//
// Since MongoDB 5.0, reads outside transactions take no lock on the database and the
// collection, unless disableLockFreeReads is set. Here they always take both, so that tests
// show what readers would wait for.
func (r *Request) lock(ctx context.Context) (unlock func(), err error) {
	name := r.value
	if r.Name == "getMore" {
		name, _ = bsonraw.Lookup(r.Body, "collection")
	}
	if !r.command.touches || r.changes || name.Type != bsoncore.TypeString {
		return func() {}, nil
	}
	return r.engine.Store.Lock(ctx, r.tx, store.Intent, store.Namespace{DB: r.DB, Coll: string(bsonraw.Text(name))})
}

// failed aborts the transaction of a failed command.
func (r *Request) failed() {
	if r.tx != nil {
		r.session.Fail()
	}
}
