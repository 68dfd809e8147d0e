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

// Config is what an engine works with; all fields but Sharded are required.
type Config struct {
	Store    *store.Store
	Sessions *session.Manager
	Faults   *fault.Set
	Now      func() time.Time
	// Sharded makes the engine answer as a mongos.
	Sharded bool
	// SetName is the replica set's name and Host the address it tells clients.
	SetName, Host string
	// Version is the server version to claim, and Wire its wire version.
	Version string
	Wire    int32
}

// Engine answers commands. Its methods may be called by many goroutines.
type Engine struct {
	Config
	commands  map[string]spec
	cursors   *cursors
	processID bson.ObjectID
	started   time.Time
	counts    counts
	cluster   cluster
}

// New makes an engine.
func New(c Config) *Engine {
	return &Engine{
		Config: c, commands: commandTable(), cursors: newCursors(c.Now), processID: bson.NewObjectID(), started: c.Now(),
	}
}

// Conn is what an engine keeps of a connection. One goroutine uses it.
type Conn struct {
	ID      int32
	AppName string
	// wrote says that a command of this connection has written something.
	wrote bool
}

// Reply is the answer to a message.
type Reply struct {
	// Body is the document; nil where the client wants no answer.
	Body []byte
	// Again says that the client wants the same command answered over and over.
	Again bool
	// Close drops the connection without the answer.
	Close bool
}

// Handle answers one message. The context present, made from ctx, ends when the
// client leaves: it interrupts reads, where writes go on. repeat counts the
// answers already given to the message.
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
	if r.Name != "configureFailPoint" { // otherwise no client could end a fault
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

// inject gives the answer that a fault asks for.
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

// prepare finds the command and reads its generic fields.
func (e *Engine) prepare(r *Request) error {
	c, ok := e.commands[r.Name]
	if !ok {
		return mongoerr.New(mongoerr.CommandNotFound, "no such command: '%s'", r.Name)
	}
	r.command = c
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

// run runs the command in its session and transaction.
func (e *Engine) run(ctx context.Context, r *Request) (*bsonraw.Builder, error) {
	if r.maxTime > 0 && r.Name != "getMore" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.maxTime)
		defer cancel()
	}
	release, err := r.join(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	b := bsonraw.NewBuilder(512)
	if err := r.command.run(ctx, e, r, b); err != nil {
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			err = store.Interrupted(ctx)
		}
		r.failed()
		return nil, err
	}
	return b, nil
}
