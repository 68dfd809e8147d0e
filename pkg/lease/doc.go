// Package lease keeps leases in documents of MongoDB. A lease is a part of a document: a
// few [Fields], which one update changes together with what else the document holds.
//
//	             Take: epoch+1                      Renew
//	free ───────────────────────────▶ held ◀──────────────┐
//	 ▲                                │  │ └──────────────┘
//	 │  Release, or Until has passed  │  └─▶ held by another process: Take after Until
//	 └────────────────────────────────┘
//
// The holder's own view, which ends before the server's:
//
//	          a request is answered            no answer for 5/6 of the lease
//	unknown ─────────────────────────▶ trusted ──────────────────────────────▶ over
//	                                   ▲     │           renewal matches nothing ▲
//	                                   └─────┴───────────────────────────────────┘
//	                                   a renewal is answered
//
// # The clock
//
// Only the server compares the end of a lease with the time, by its own clock ($$NOW). The
// clocks of the processes need not agree. A lease has ended when the server's time is not
// before its end, or if it has no end, because it was never taken. A release stores the
// server's present time, so another process can take the lease at once.
//
// # The epoch
//
// A process can be stopped for longer than its lease and then continue in the middle of a
// request. So each taking raises an epoch, or stores a new id of its own, and every request
// of the holder names it ([Fields.Held]). Requests of an earlier holder match nothing.
//
// # Trust
//
// Work whose effects no epoch fences must end before the lease does. [Trust] counts from the
// start of the last request that was answered: the server executed it later, so the lease
// ends later than a process believes. A renewal whose answer is lost extends the lease, but
// not the trust. The last sixth of the lease is a margin, for the time in which work stops
// and for clocks of different speed. [Hold] renews a lease while work runs, and ends the
// context of the work with the trust.
//
// # A dead holder
//
// A process that knows that a holder is dead (it has the identity of its pod) can release its
// leases, so that any process can take them at once. It must not do so for a holder that may live:
// not all leases have a fence. The leases of jobs and of parked aggregates expire.
//
// # Who uses it
//
//	lease of                             fields                        what fences its holder
//	a range of a job, its planning       leaseUntil, holder, epoch     the epoch, and the trust ends the work
//	  (job_ranges, jobs)
//	the coordinator of the projections   until, pod, epoch             the revision in each write of an entry,
//	  (projectors)                                                       and a token in a promotion
//	the registration of a pod            until                         the trust: without it, the pod settles
//	  (projectors)                                                       nothing
//	a parked aggregate (parked)          retryAt, claim                the id of the claim, and the watermark
//
// # What is not here
//
// The publisher's lock in MongoDB is the same lock as a Lease of Kubernetes, by client-go:
// its candidates compare no clocks, but wait for the duration of a lease since they saw the
// last renewal. See package leader of the publisher.
package lease
