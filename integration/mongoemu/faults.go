package mongoemu

import (
	"context"
	"time"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/fault"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

// CommandFault makes commands fail; see [Server.FailCommands].
type CommandFault = fault.Command

// FailCommands makes the next matching commands fail. Faults are applied in the order in
// which they were given.
func (s *Server) FailCommands(f CommandFault) { s.faults.Add(f) }

// DocumentFault makes the writes of some documents fail; see [Server.FailDocuments].
type DocumentFault = fault.Document

// FailDocuments makes the writes of some documents fail until ClearFaults.
func (s *Server) FailDocuments(f DocumentFault) { s.faults.AddDocuments(f) }

// PendingFaults returns how many faults given to [Server.FailCommands] are still in force.
func (s *Server) PendingFaults() int { return s.faults.Pending() }

// CommandsByDatabase returns how many commands each database has received, without hello.
// It counts failed commands too.
func (s *Server) CommandsByDatabase() map[string]int { return s.engine.CommandsByDatabase() }

// SetLatency delays every command by d; 0 ends the delay.
func (s *Server) SetLatency(d time.Duration) { s.faults.SetLatency(d) }

// ClearFaults ends all faults of commands and documents, and the latency.
func (s *Server) ClearFaults() { s.faults.Clear() }

// DropConnections closes all connections, or those with one of the given application names,
// and returns their number.
func (s *Server) DropConnections(appNames ...string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for c := range s.conns {
		if len(appNames) > 0 && !c.named(appNames) {
			continue
		}
		_ = c.net.Close()
		n++
	}
	return n
}

// InterruptStreams fails the present or next getMore of every open change stream with a
// code, and returns the number of streams. The code 0 means 11602,
// InterruptedDueToReplStateChange, after which a driver resumes.
func (s *Server) InterruptStreams(code int32) int {
	if code == 0 {
		code = 11602
	}
	return s.engine.InterruptStreams(code)
}

// KillCursors removes all cursors, so that their next getMore fails with CursorNotFound,
// and returns their number.
func (s *Server) KillCursors() int { return s.engine.KillCursors() }

// OpenCursors counts the open cursors, and the change streams among them.
func (s *Server) OpenCursors() (all, streams int) { return s.engine.OpenCursors() }

// TruncateOplog removes all entries of the oplog except the newest keep. Entries of one
// transaction are kept or removed together, and the newest always stay.
func (s *Server) TruncateOplog(keep int) { s.store.Log().Truncate(keep) }

// OplogEntries returns the number of entries in the oplog.
func (s *Server) OplogEntries() int { return s.store.Log().Stats().Entries }

// WriteNoop appends an entry without a change, which advances the oplog's time like the
// periodic ones.
func (s *Server) WriteNoop() error { return s.store.Noop("by order of a test") }

// ExpireDocuments makes a pass over the TTL indexes now.
func (s *Server) ExpireDocuments() error { return s.store.Expire(s.ctx) }

// Isolate cuts the primary off from its secondaries. It serves on, but no majority has what is
// written from now on: writes with the write concern majority, which is the default, wait;
// change streams and reads with the read concern majority do not see it. A real primary steps
// down after ten seconds of this. It is not for servers with a data directory.
func (s *Server) Isolate() error { return s.store.Isolate() }

// Rejoin ends [Server.Isolate]: the secondaries copy what they lack, and the writes that wait
// succeed.
func (s *Server) Rejoin() { s.store.Rejoin() }

// Failover makes another member the primary, at the same address. Connections, cursors and
// open transactions end. What was written since [Server.Isolate] is rolled back; without it,
// this is the restart of a server.
func (s *Server) Failover() error {
	s.election.Lock()
	defer s.election.Unlock()
	s.setElecting(true)
	s.interrupt(mongoerr.New(mongoerr.InterruptedDueToReplStateChange, "operation was interrupted"))
	s.DropConnections()
	s.serving.Wait()
	s.engine.KillCursors()
	s.sessions.Elect(s.store.Log().Held())
	err := s.store.Elect()
	s.setElecting(false)
	return err
}

// setElecting begins or ends the time without a primary.
func (s *Server) setElecting(electing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.electing = electing
	if !electing {
		s.term, s.interrupt = context.WithCancelCause(s.ctx)
	}
}
