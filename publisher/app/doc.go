// Package app composes the publisher: it makes its parts of the configuration, and
// runs them in terms of leadership.
//
//	process   admin server · MongoDB clients · preflight · elector
//	  │
//	  └─ term   claim an epoch → start point → (scan) → stream → drain → last save
//	               │                              │        │
//	               │                              ▼        ▼
//	               │                   pump: read keys, watermark, quarantine
//	               │                              │
//	               │                              ▼
//	               └─ saver ◀── watermark ◀── dispatcher ──▶ topic
//
// # How a term ends
//
//	stop asked for      the stream ends first; what is in flight is drained under
//	                    the lease, which is still held; the checkpoint is saved; only
//	                    then is the lease given up
//	lease lost          everything ends at once; a last save is tried, which the
//	                    fence makes harmless
//	fenced              everything ends at once
//	stream cannot go on as with a stop, and the process ends with the explanation
//	other pipeline      as with a stop, and the process ends with the explanation: the
//	                    checkpoint, or the lock, records another source or destination
//	most events         the stream ends, what is in flight is drained, and the process
//	cannot be read      ends with the explanation; nothing of them is quarantined
//	topic refuses       at the start, or after PENSTOCK_FATAL_AFTER: the stream ends, and
//	                    the process ends with the explanation
//	MongoDB refuses     the next term tries again; at the start, or after
//	                    PENSTOCK_FATAL_AFTER, the process ends with the explanation
//
// Whatever ended it, when a term's work returns, all that it started has ended. Closing
// the connections and the last save get the time that is really left: after a stop up to
// 5 s each; after the loss of the lease a share of what remains until another publisher
// may take over, 3 s with the default durations.
//
// # Liveness
//
// Each loop of a term has a heartbeat of its own, so /livez names the one that is stuck:
//
//	stream      the scan or the change stream moves, waits for the dispatcher, or waits
//	            for a server that answers pings
//	dispatcher  calls to the broker return, whatever the answer, or nothing is to be sent
//	saver       saves return, whatever the answer
//	election    requests to the lock store return
//
// A throttled broker, an outage, back-pressure and an idle stream keep all of them
// green: a restart would not help.
//
// # Where a stream starts
//
//	checkpoint: scan     the scan goes on after its last saved event
//	checkpoint: token    the stream goes on after it
//	checkpoint: time     the stream starts at it
//	none                 PENSTOCK_START, whose position is saved before the first event
//	                     is read: a crash before the first save loses nothing
//
// A position belongs to one collection, whose UUID the checkpoint records. If another
// collection has its name, at the start of a term or while the stream runs, the collection
// is scanned from its beginning. If there is none, the term waits for it.
//
// If the oplog no longer has what follows the position, the event store is scanned from
// its beginning, and the stream follows from the operation time that was noted before.
//
// # A scan that outlives the oplog
//
// A scan is one lap of the event store, in stretches of a minute ([scanStretch]). After
// each, the term follows the change stream to its present end and publishes what belongs
// to the scanned part. So the oplog must reach back over a stretch, not over the scan.
//
//	     stretch              catch up               stretch
//	P ────────────▶ P' ──────────────────────▶ P' ────────────▶ …  end of the lap ──▶ stream
//	                │ stream T ──▶ T', events
//	                │ at or before P' only
//	                └─ the oplog has lost T: T' = now, and the lap ends at P', one time around
//
// A loss costs one more lap and nothing else: the scan goes on where it is, in this process
// or the next. The checkpoint holds where the lap began, the stream's start and the number
// of losses. After more than three of them the process ends with what helps: see
// [errOplogTooShort]. A collection with a collation of its own is scanned without catching
// up, because the publisher cannot compare places in its index.
package app
