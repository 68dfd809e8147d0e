// Package watch reads the change stream of the events collection: every insert,
// in order, as raw BSON, and never past a hole.
//
// # From the server to the handler
//
//	Source ──▶ ChangeStream ──▶ reader ──▶ prefetch queue ──▶ handler
//	 opens       one cursor      parses,      bounded in        submits to the
//	 and looks up                counts       bytes             dispatcher
//
// The reader is a goroutine ahead of the handler, so that fetching, which waits
// for the network, overlaps with publishing. Where the handler is slower, the
// queue fills and the reader stops: back-pressure reaches the server as a cursor
// that nobody asks for more.
//
// # States of the reader
//
//	               open                    reply
//	opening ────────────────▶ following ◀─────────┐
//	   ▲                          │ └─────────────┘
//	   │ wait, after errors       │ error, silence, invalidate
//	   ├──────────────────────────┘
//	   │
//	   └──▶ ended: history lost ([ErrHistoryLost]), refused ([ErrRefused]), or the
//	        context has ended
//
// Every reopening continues from the last position that was read, with
// startAfter: it takes every token that resumeAfter takes, and also that of an
// invalidate, so that a dropped and recreated collection is followed without a
// gap. [Classify] says which error leads where. "Restart at now" is nowhere.
//
// # Silence
//
// A stream whose replica set has lost its majority idles without an error: each
// reply is empty, and its post-batch token stands still. Even an idle replica set
// writes to its oplog every 10 s (periodicNoopIntervalSecs), so that the token of
// a live stream moves. Where it has not moved for [Options.Silence] the stream is
// reopened, and after twice that the beats for the liveness probe end. At the start
// the position may be old, and the server has to scan a long oplog for it: until the
// first reply it has [Options.CatchUp].
package watch
