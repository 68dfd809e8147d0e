package mongoemu

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/command"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/fault"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/oplog"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/session"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

// Server is one single-node replica set in memory.
type Server struct {
	config   Config
	store    *store.Store
	sessions *session.Manager
	engine   *command.Engine
	faults   fault.Set
	users    command.Users

	listener net.Listener
	group    *errgroup.Group
	ctx      context.Context //nolint:containedctx // the lifetime of the server itself
	stop     context.CancelCauseFunc

	nextConn atomic.Int32
	mu       sync.Mutex
	conns    map[*conn]struct{}
	closed   bool
	// election is held while another member becomes the primary. Then electing refuses
	// connections, interrupt ends the commands that run, and serving waits for them.
	election  sync.Mutex
	electing  bool
	term      context.Context //nolint:containedctx // the lifetime of the connections
	interrupt context.CancelCauseFunc
	serving   sync.WaitGroup
}

// New makes a server that does not listen yet.
func New(c Config) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Server{config: c.withDefaults(), conns: map[*conn]struct{}{}}, nil
}

// Start starts listening and answering. Call it once.
func (s *Server) Start() error {
	if s.listener != nil {
		return errors.New("start mongoemu: already started")
	}
	for name, password := range s.config.Users {
		if err := s.users.Set(name, password); err != nil {
			return err
		}
	}
	l := s.config.Listener
	if l == nil {
		var err error
		if l, err = net.Listen("tcp", s.config.Address); err != nil {
			return fmt.Errorf("listen for clients: %w", err)
		}
	}
	log := oplog.New(oplog.Limits{Entries: s.config.OplogEntries, Bytes: s.config.OplogBytes})
	var err error
	if s.store, err = s.openStore(log); err != nil {
		return errors.Join(err, l.Close())
	}
	s.listener = l
	s.sessions = session.NewManager(s.store, s.config.Now, s.config.TransactionLifetime)
	s.engine = command.New(command.Config{
		Store: s.store, Sessions: s.sessions, Faults: &s.faults, Users: &s.users, Now: s.config.Now,
		Sharded: s.config.Sharded, SetName: s.config.ReplicaSet, Host: s.Address(), Version: Version, Wire: wireVersion,
	})
	ctx, stop := context.WithCancelCause(context.Background())
	s.stop = stop
	s.group, s.ctx = errgroup.WithContext(ctx)
	s.term, s.interrupt = context.WithCancelCause(s.ctx)
	s.group.Go(s.accept)
	s.group.Go(s.endWithJournal)
	s.every(s.config.TTLInterval, func() error { return s.store.Expire(s.ctx) })
	s.every(min(max(s.config.TransactionLifetime/2, time.Second), time.Minute), func() error { s.sessions.Reap(); return nil })
	s.every(cursorInterval, func() error { s.engine.ExpireCursors(); return nil })
	s.every(s.config.NoopInterval, s.noopWhenIdle())
	return nil
}

// ErrJournal says that the server ended because it could not write its journal. mongod ends
// in this case too.
var ErrJournal = errors.New("journal not written: the disk under the data directory may be full")

// endWithJournal ends the server when its journal fails.
func (s *Server) endWithJournal() error {
	select {
	case <-s.store.Failed():
		return ErrJournal
	case <-s.ctx.Done():
		return nil
	}
}

// Done is closed when the server has ended by itself or was closed. [Server.Close] returns
// the reason. The server must have been started.
func (s *Server) Done() <-chan struct{} { return s.ctx.Done() }

func (s *Server) openStore(log *oplog.Log) (*store.Store, error) {
	if s.config.DataDir == "" {
		return store.New(log, s.config.Now), nil
	}
	return store.Open(log, s.config.Now, s.config.DataDir)
}

// Address returns the host:port of the listener.
func (s *Server) Address() string { return s.listener.Addr().String() }

// URI returns the connection string for a driver.
func (s *Server) URI() string {
	if s.config.Sharded {
		return fmt.Sprintf("mongodb://%s/", s.Address())
	}
	return fmt.Sprintf("mongodb://%s/?replicaSet=%s", s.Address(), s.config.ReplicaSet)
}

// Close drops all connections and waits until every goroutine has ended. Without a data
// directory, all data are lost.
func (s *Server) Close() error {
	if s.listener == nil {
		return nil
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.stop(mongoerr.New(mongoerr.InterruptedAtShutdown, "interrupted at shutdown"))
	err := s.listener.Close()
	s.DropConnections()
	if err != nil {
		err = fmt.Errorf("close the listener: %w", err)
	}
	s.serving.Wait()
	if waited := s.group.Wait(); waited != nil {
		err = errors.Join(err, fmt.Errorf("run mongoemu: %w", waited))
	}
	return errors.Join(err, s.store.Close())
}

func (s *Server) accept() error {
	for {
		nc, err := s.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("accept a connection: %w", err)
		}
		s.serve(s.newConn(nc))
	}
}

// serve serves a connection, unless the server is closing or has no primary.
func (s *Server) serve(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.electing {
		_ = c.net.Close()
		return
	}
	s.conns[c] = struct{}{}
	term := s.term
	s.serving.Go(func() {
		defer s.forget(c)
		c.serve(term)
	})
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	_ = c.net.Close()
}

// every calls do at every interval until the server closes or do fails.
func (s *Server) every(interval time.Duration, do func() error) {
	s.group.Go(func() error {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-s.ctx.Done():
				return nil
			case <-tick.C:
				if err := do(); err != nil && s.ctx.Err() == nil {
					return err
				}
			}
		}
	})
}

// noopWhenIdle advances the oplog if there was no write since its last call.
func (s *Server) noopWhenIdle() func() error {
	last := s.store.OperationTime()
	return func() error {
		if s.store.OperationTime() == last {
			if err := s.store.Noop("periodic noop"); err != nil {
				return err
			}
		}
		last = s.store.OperationTime()
		return nil
	}
}
