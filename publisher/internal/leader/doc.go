// Package leader decides which process publishes, and for how long.
//
// [Elector.Run] runs [Work] in terms. A term begins when client-go's elector has
// taken the lock and ends, at the latest, before another process can take it.
//
//	          lock taken                      stop asked for
//	candidate ──────────▶ leading ─────────────────────────────▶ draining
//	    ▲                  │    │                                 │    │
//	    │        lease lost│    │work ended by itself             │    │lease lost
//	    │     trust expired│    │                                 │    │trust expired
//	    │                  ▼    │                       work ended│    ▼
//	    │               aborting│                                 │  aborting
//	    │      work ended │     ▼                                 ▼    │
//	    └─────────────────┴── releasing ◀────────────────────────────┘
//	  (after a backoff, where      │
//	   the work failed)            └──▶ Run returns, where a stop was asked for
//
// Work that is still running when its time is up (see [Config]) makes Run return
// [ErrWorkerStuck]: the caller must then exit the process, because nothing else
// can end such work before another process begins its own.
//
// # What client-go does not do
//
// The package stands on k8s.io/client-go/tools/leaderelection and closes the gaps
// that its source (v0.37.2, leaderelection.go) leaves:
//
//   - Release waits for nobody: [Elector.Run] lets the work end first and gives the
//     lease up second.
//   - An elector that hangs in a request keeps its callback's context alive: a term
//     therefore ends by itself when the last renewal, counted from the moment at
//     which its request was begun, is older than Config.RenewDeadline +
//     Config.Margin.
//   - An elector that reads another holder's name goes on trying until
//     RenewDeadline is over: a term ends at once.
//   - release looks only at what the elector observed before and then overwrites
//     whatever record it finds, even a successor's: such a write is refused.
//   - A missing lock is free to it, so that a candidate takes over at once where
//     somebody deletes a Lease: a candidate that saw a leader leaves it the time of
//     its lease to make the lock anew.
//   - It tells renewals apart by a Lease's times in whole seconds, and would not
//     notice the second of two within one: it is shown the fractions too.
//   - It writes one renewal twice, with the same time, where the answer to the first
//     attempt was lost, and candidates count from the first: each write gets a time
//     of its own.
//   - It looks for a free lock as rarely as it renews a held one: it is told to look
//     once in Config.PollPeriod, and renewals in between are left out.
//   - It logs every failed request, one or two a second: a lock store that cannot be
//     reached is told of once, with the remedy.
//   - An elector runs once: every term has its own.
//
// # What no lease can do
//
// A process that is frozen (a paused virtual machine, a suspended laptop) notices
// the end of its term only when it thaws. The epoch that package checkpoint claims
// fences what such a process writes.
package leader
