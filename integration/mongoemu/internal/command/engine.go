package command

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/fault"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/session"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/wire"
)

// Config is the configuration of an engine. All fields except Sharded are required.
type Config struct {
	Store    *store.Store
	Sessions *session.Manager
	Faults   *fault.Set
	Users    *Users
	Now      func() time.Time
	// Sharded makes the engine behave like a mongos.
	Sharded bool
	// SetName is the name of the replica set. Host is the address that hello returns.
	SetName, Host string
	// Version is the server version that the engine reports. Wire is its maximum wire
	// version.
	Version string
	Wire    int32
}

// Engine executes commands. Its methods are safe for concurrent use.
type Engine struct {
	Config
	commands  map[string]spec
	cursors   *cursors
	processID bson.ObjectID
	started   time.Time
	counts    counts
	cluster   cluster
}

// New returns an engine.
func New(c Config) *Engine {
	return &Engine{
		Config: c, commands: commandTable(), cursors: newCursors(c.Now), processID: bson.NewObjectID(), started: c.Now(),
	}
}

// Conn is the state of a connection. Only one goroutine may use it.
type Conn struct {
	ID      int32
	AppName string
	// wrote says that a command of this connection has written something, as
	// [Request.note] records.
	wrote bool
	// user and userName are who has authenticated; nil and empty for nobody. talk is the
	// authentication that is under way; nil if there is none.
	user     *user
	userName string
	talk     *conversation
}

// Reply is the reply to a message.
type Reply struct {
	// Body is the reply document; nil if the client does not want a reply.
	Body []byte
	// Again says that the client wants further replies to the same command.
	Again bool
	// Close closes the connection without a reply.
	Close bool
}

// Handle executes the command in a message. The context present is derived from ctx and
// ends when the client disconnects. It interrupts reads; writes continue. repeat is the
// number of replies already sent to this message.
func (e *Engine) Handle(ctx, present context.Context, conn *Conn, m *wire.Message, repeat int) Reply {
	r, err := parseRequest(conn, m)
	if err != nil {
		return Reply{Body: e.failure(r, mongoerr.As(err), nil)}
	}
	r.repeat = repeat
	if e.commands[r.Name].reads {
		ctx = present
	}
	return e.answer(ctx, r, m)
}

func (e *Engine) answer(ctx context.Context, r *Request, m *wire.Message) Reply {
	e.counts.add(r)
	if err := e.delay(ctx, e.Faults.Latency()); err != nil {
		return Reply{Close: true}
	}
	prepared := e.prepare(r)
	defer r.note(e)
	var f *fault.Command
	if r.Name != "configureFailPoint" { // otherwise a fault on all commands could not be removed
		collection := ""
		if r.value.Type == bsoncore.TypeString {
			collection = string(bsonraw.Text(r.value))
		}
		f = e.Faults.Take(r.Name, collection, r.conn.AppName)
	}
	if f == nil {
		f = &fault.Command{}
	}
	if err := e.delay(ctx, f.Block); err != nil {
		return Reply{Close: true}
	}
	if f.Hold {
		select {
		case <-f.Cleared():
		case <-ctx.Done():
			return Reply{Close: true}
		}
	}
	if !f.AfterExecution {
		if reply, failed := e.inject(r, f); failed {
			return reply
		}
	}
	var body *bsonraw.Builder
	err := prepared
	if err == nil {
		body, err = e.run(ctx, r)
	}
	if f.AfterExecution {
		if reply, failed := e.inject(r, f); failed {
			return reply
		}
	}
	var reply Reply
	if err != nil {
		reply.Body = e.failure(r, mongoerr.As(err), nil)
	} else {
		if f.WriteConcernCode != 0 {
			labels := f.Labels
			if labels == nil {
				labels = r.labels(mongoerr.Code(f.WriteConcernCode))
			}
			writeConcernError(body, mongoerr.New(mongoerr.Code(f.WriteConcernCode), "write concern error by order of a test"), labels)
		}
		reply.Body = e.success(r, body)
		reply.Again = r.exhaust && m.Flags&wire.FlagExhaustAllowed != 0
	}
	if m.Opcode == wire.OpMsg && m.Flags&wire.FlagMoreToCome != 0 {
		reply.Body = nil
	}
	return reply
}

// inject returns the reply that a fault demands, and whether it demands one.
func (e *Engine) inject(r *Request, f *fault.Command) (Reply, bool) {
	if f.CloseConnection {
		return Reply{Close: true}, true
	}
	if f.Code == 0 {
		return Reply{}, false
	}
	message := f.Message
	if message == "" {
		message = "Failing command by order of a test"
	}
	return Reply{Body: e.failure(r, mongoerr.New(mongoerr.Code(f.Code), "%s", message), f.Labels)}, true
}

func (e *Engine) delay(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// prepare looks up the command and parses its generic fields.
func (e *Engine) prepare(r *Request) error {
	c, ok := e.commands[r.Name]
	if !ok {
		return mongoerr.New(mongoerr.CommandNotFound, "no such command: '%s'", r.Name)
	}
	r.command = c
	if err := e.Users.require(r); err != nil {
		return err
	}
	if err := e.throughMongos(r); err != nil {
		return err
	}
	r.changes = e.ofStream(r)
	r.engine, r.before = e, e.Store.Log().End()
	if err := r.generic(e); err != nil {
		return err
	}
	if c.admin && r.DB != "admin" {
		return mongoerr.New(mongoerr.Unauthorized, "%s may only be run against the admin database.", r.Name)
	}
	return nil
}

// exclusively runs fn while it holds the exclusive locks on the collections or databases.
func (e *Engine) exclusively(ctx context.Context, fn func(w *store.Writer) error, namespaces ...store.Namespace) error {
	unlock, err := e.Store.Lock(ctx, nil, store.Exclusive, namespaces...)
	if err != nil {
		return err
	}
	defer unlock()
	return e.Store.Do(ctx, nil, fn)
}

// run runs the command in its session and transaction.
func (e *Engine) run(ctx context.Context, r *Request) (*bsonraw.Builder, error) {
	limit := r.maxTime
	if r.Name == "getMore" {
		limit = e.cursors.left(r)
	}
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	if r.after != nil && r.readLevel == "majority" && !e.Store.Log().Wait(ctx, nil, e.Store.Log().End()-1) {
		return nil, store.Interrupted(ctx)
	}
	release, err := r.join(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	r.now = e.Now().UnixMilli() // before the command waits for locks
	unlock, err := r.lock(ctx)
	if err != nil {
		r.failed()
		return nil, err
	}
	b := bsonraw.NewBuilder(512)
	err = r.command.run(ctx, e, r, b)
	unlock()
	if waited := e.replicate(ctx, r, b); err == nil {
		err = waited
	}
	if err != nil {
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			err = store.Interrupted(ctx)
		}
		r.failed()
		return nil, err
	}
	return b, nil
}
