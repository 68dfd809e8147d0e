// Package leader decides which process publishes, and for how long.
//
// [Elector.Run] runs [Work] in terms. A term begins when client-go's elector has
// taken the lock and ends, at the latest, before another process can take it.
//
//	          lock taken                      stop requested
//	candidate ──────────▶ leading ─────────────────────────────▶ draining
//	    ▲                  │    │                                 │    │
//	    │        lease lost│    │work ended by itself             │    │lease lost
//	    │     trust expired│    │                                 │    │trust expired
//	    │                  ▼    │                       work ended│    ▼
//	    │               aborting│                                 │  aborting
//	    │      work ended │     ▼                                 ▼    │
//	    └─────────────────┴── releasing ◀────────────────────────────┘
//	  (after a backoff,            │
//	   if the work failed)         └──▶ Run returns, if a stop was requested
//
// If work is still running when its time is up (see [Config]), Run returns
// [ErrWorkerStuck]. The caller must then exit the process, because nothing else can end the
// work before another process begins its own.
//
// # Differences from client-go
//
// The package uses k8s.io/client-go/tools/leaderelection (v0.37.2, leaderelection.go) and
// corrects this behaviour of its elector:
//
//   - It releases the lease without waiting for the work. [Elector.Run] ends the work first
//     and releases the lease second.
//   - While it hangs in a request, it keeps its callback's context alive. A term therefore
//     ends by itself Config.RenewDeadline + Config.Margin after the start of the last
//     successful renewal.
//   - If it reads another holder's name, it retries until RenewDeadline has passed. A term
//     ends immediately.
//   - Its release checks only the record that it observed before, and then overwrites any
//     record, even a successor's. The guard refuses such a write.
//   - It distinguishes renewals by a Lease's times in whole seconds, and would miss the
//     second of two within one second. The guard adds the fractions.
//   - If the answer to a renewal was lost, it repeats the write with the same time, and
//     candidates count from the first. The guard gives each write a time of its own.
//   - It looks for a free lock only as often as it renews a held one. The guard makes it
//     look every Config.PollPeriod, and omits renewals in between.
//   - It logs every failed request, one or two per second. Its log is discarded: a lock store
//     that cannot be reached is logged once, with the remedy.
//   - An elector runs once, so every term has its own.
//
// # A process that restarts
//
// In Kubernetes a holder's identity is the name and the UID of its pod. The kubelet starts a
// container only after the former one has ended, so a process that finds its own identity in
// the lock takes the lock at once: the elector treats it as its own. What the former process
// has sent can still arrive: a renewal loses the comparison of versions, a save of the
// checkpoint lacks the epoch and the id of the claim, and a message is one that the successor
// publishes too.
//
// # Limits of a lease
//
// A process that is frozen (a paused virtual machine, a suspended laptop) detects the end
// of its term only when it continues. The epoch that package checkpoint claims fences its
// writes. What it still sends can only repeat events that its successor publishes too,
// because the successor begins at the saved position.
//
// The same holds if somebody deletes the lock: a candidate makes it anew and leads, and the
// former leader detects that when it renews, within Config.RetryPeriod.
package leader
