// Package virtual runs the services inside one bubble of testing/synctest, as processes that
// have only a network in memory: their time is virtual, so waiting costs nothing.
//
//	Network ── Host ── link ──▶ server       a link delays, holds, cuts and drops
//	             │
//	          Process                        main of a service, with the host's dialers
//
// The services are those of the binaries from the reading of the settings on. Only what the
// operating system gives a process is different: its connections, its admin listener and its
// end. A [Process.Crash] breaks the connections and discards what the process does later.
package virtual
