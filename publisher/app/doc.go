// Package app composes the publisher: it makes the parts from the configuration, checks what
// they need, and runs package term as long as the process leads.
//
//	process   admin server · MongoDB clients · preflight · elector
//	  │          beside the terms: inventory, credentials
//	  └─ term.Runner
//
// Beside the loops of a term, whose liveness package term describes, the election has a
// heartbeat: requests to the lock store return. The commands are here too.
package app
