package mongoemu

import (
	"time"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/fault"
)

// CommandFault orders commands to fail; see [Server.FailCommands].
type CommandFault = fault.Command

// FailCommands orders the next matching commands to fail. Faults are met in the
// order in which they were given.
func (s *Server) FailCommands(f CommandFault) { s.faults.Add(f) }

// DocumentFault orders the writes of some documents to fail; see
// [Server.FailDocuments].
type DocumentFault = fault.Document

// FailDocuments orders the writes of some documents to fail until ClearFaults.
func (s *Server) FailDocuments(f DocumentFault) { s.faults.AddDocuments(f) }

// PendingFaults is how many faults given to [Server.FailCommands] are still in
// force.
func (s *Server) PendingFaults() int { return s.faults.Pending() }

// Commands is how many commands clients of that application name have sent, those
// that failed among them, other than hello.
func (s *Server) Commands(appName string) int { return s.engine.Commands(appName) }

// CommandsByDatabase is how many commands each database has received, those that failed
// among them, other than hello.
func (s *Server) CommandsByDatabase() map[string]int { return s.engine.CommandsByDatabase() }

// SetLatency delays every command by d; 0 ends it.
func (s *Server) SetLatency(d time.Duration) { s.faults.SetLatency(d) }

// ClearFaults ends all faults of commands and documents, and the latency.
func (s *Server) ClearFaults() { s.faults.Clear() }

// DropConnections closes all connections, or those of the given application
// names, and gives how many.
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

// InterruptStreams fails the present or else the next getMore of every open
// change stream with a code, and gives how many there are. The code 0 stands for
// 11602, InterruptedDueToReplStateChange, after which a driver resumes.
func (s *Server) InterruptStreams(code int32) int {
	if code == 0 {
		code = 11602
	}
	return s.engine.InterruptStreams(code)
}

// KillCursors takes all cursors away, so that their next getMore fails with
// CursorNotFound, and gives how many there were.
func (s *Server) KillCursors() int { return s.engine.KillCursors() }

// OpenCursors counts the open cursors, and the change streams among them.
func (s *Server) OpenCursors() (all, streams int) { return s.engine.OpenCursors() }

// TruncateOplog drops all but the newest keep entries of the oplog. Those of one
// transaction stay or go together, and the newest stay.
func (s *Server) TruncateOplog(keep int) { s.store.Log().Truncate(keep) }

// OplogEntries is the number of entries in the oplog.
func (s *Server) OplogEntries() int { return s.store.Log().Stats().Entries }

// WriteNoop appends an entry that changes nothing, which moves the oplog's time
// on as the periodic ones do.
func (s *Server) WriteNoop() error { return s.store.Noop("by order of a test") }

// ExpireDocuments makes a pass over the TTL indexes now.
func (s *Server) ExpireDocuments() error { return s.store.Expire(s.ctx) }
