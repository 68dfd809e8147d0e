// Package term does the work of a leader: from a term's claim of the checkpoint to its last
// save, and what a process compares while it waits for a term.
//
//	term   claim an epoch → start point → (scan) → stream → drain → last save
//	  │                               │        │
//	  │                               ▼        ▼
//	  │                    pump: read keys, watermark, quarantine
//	  │                               │
//	  │                               ▼
//	  └─ saver ◀── watermark ◀── dispatcher ──▶ topic
//
// # How a term ends
//
//	stop requested      the stream ends first; the events in flight are drained while
//	                    the lease is held; the checkpoint is saved; then the lease is
//	                    released
//	lease lost          everything ends immediately; one last save is tried, which is
//	                    harmless because of the fence
//	fenced              everything ends immediately
//	process dies        the lease expires, or its successor on the same host takes it
//	                    (package leader); the next leader claims the next epoch and
//	                    publishes everything after the saved position again, in order;
//	                    the guards of the read models ignore what they have applied
//	stream cannot       as with a stop, and the process exits with the explanation
//	continue
//	collection          everything that was read of it is published first; then as with a
//	replaced            stop, and the process exits with the command that begins anew
//	other pipeline      as with a stop, and the process exits with the explanation: the
//	                    checkpoint, or the lock, records another source or destination
//	topic refuses       at the start, or after PENSTOCK_FATAL_AFTER: the stream ends, and
//	                    the process exits with the explanation; refused events only wait
//	MongoDB refuses     the next term retries; at the start, or after
//	                    PENSTOCK_FATAL_AFTER, the process exits with the explanation
//
// When a term's work returns, everything that it started has ended, whatever the reason.
// Closing the connections and the last save share the time that is left. After a stop, each
// has up to 5 s. After the loss of the lease, each has a share of the time until another
// publisher may take over, which is 3 s with the default durations.
//
// # Liveness
//
// Each loop of a term has its own heartbeat, so /livez names the loop that is stuck:
//
//	stream      the scan or the change stream moves, waits for the dispatcher, or waits
//	            for a server that answers pings
//	dispatcher  calls to the broker return, whatever the answer, or there is nothing to send
//	saver       saves return, whatever the answer
//
// A throttled broker, an outage, back-pressure and an idle stream do not stop the
// heartbeats, because a restart would not help.
//
// # Where a stream starts
//
//	checkpoint: scan     the scan continues after its last saved event
//	checkpoint: token    the stream continues after the token
//	checkpoint: time     the stream starts at the time
//	none                 PENSTOCK_START, whose position is saved before the first event
//	                     is read: a crash before the first save loses nothing
//
// A position belongs to one collection, whose UUID the checkpoint records. If that collection
// was renamed, dropped or replaced, the change stream still has what was inserted into it
// before, also for a process that was stopped or behind. So the term follows the stream to the
// invalidate where the collection ended, publishes all of it, saves the position, and the
// process ends with [ErrReplaced]. No change stream has the documents that are now in the
// collection of that name: an operator has them published by "publisher checkpoint set".
//
// Each scan leaves out the events that are older than the start of the stream, if that was
// now or a time.
//
// If the oplog no longer has the changes after the position, the event store is scanned
// from its beginning. The stream then starts at the operation time that was noted before
// the scan.
//
// # Wrong events or a wrong setting
//
// At the start, [Sample] reads the newest events, and the process ends if none of them can be
// read: then a field name (PENSTOCK_FIELD_*) or the collection is wrong. Later each unreadable
// event goes to the quarantine.
//
// # While a process waits for a term
//
// Every process, also a standby, compares its pipeline with the checkpoint every 10 s. So a
// standby ends like a leader if the checkpoint belongs to another pipeline, or if MongoDB
// refuses the standby for too long. The same holds for a process that cannot even read its
// lease in the same MongoDB.
//
// # Scans
//
//	note the time T ──▶ walk {aggregateId, eventId} ──▶ stream from just after T
//
// # Why no event is missed between the scan and the stream
//
// T is the operation time of a majority read before the scan: the cluster time up to which
// that read saw everything. The scan reads with majority read concern and after T. It uses
// a causally consistent session for that, because a new primary could otherwise show an
// older state. So the scan sees every event at or before T, and the stream, which starts
// immediately after T, carries every event after T. Events that are inserted during the
// scan, ahead of its cursor, are read twice.
//
// # Why the order of an aggregate holds between scan and stream
//
// The events of an aggregate are inserted in the order of their ids, which is also their
// order in the index. While a cursor moves forward, its snapshots only become newer. So the
// cursor never reads an event without the events before it: what it reads of an aggregate
// is the prefix 1…k. The stream then starts after T, which is before k+1 was inserted,
// because the scan would have read it otherwise. It repeats some of 1…k and continues with
// k+1. First occurrences are in order, and repeats are harmless.
//
// During a long scan, the publisher follows the stream from time to time for the aggregates
// that are already scanned. It leaves the events of the other aggregates to the scan, which
// therefore reads after the cluster time of the last such event. The same argument holds
// for each part: what is read of an aggregate is a prefix, and the stream continues after
// it.
//
// The same holds if another process continues the scan from a position up to which
// everything was published: it repeats from there, in order.
//
// # A scan that outlives the oplog
//
// A scan reads in stretches of a minute ([scanStretch]). After each stretch, the term reads
// the change stream to its present end and publishes the events of the scanned part. So the
// oplog must reach back over a stretch, not over the scan.
//
//	     stretch              catch up               stretch
//	P ────────────▶ P' ──────────────────────▶ P' ────────────▶ …  end of the store ──▶ stream
//	                │ stream T ──▶ T', events
//	                │ at or before P' only
//
// If the oplog has lost T nevertheless, because no publisher ran for so long, the scan begins
// again. After more than three losses in a row the process exits with a remedy: see
// [errOplogTooShort]. A collection with its own collation is scanned without catching up,
// because the publisher cannot compare places in its index.
package term
