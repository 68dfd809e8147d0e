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
//	             open                          near the end of the oplog
//	opening ────────────▶ catching up ─────────────────────────────────▶ caught up
//	   ▲                     │     ▲                                      │     │
//	   │                     │     └──────────────────────────────────────┘     │
//	   │                     │       no such reply for Options.Silence          │
//	   │                     ▼                                                  ▼
//	   ├──────── error, silence; a wait after errors ───────────────────────────┘
//	   │
//	   └──▶ ended: history lost ([ErrHistoryLost]), the collection is another one
//	        ([ErrInvalidated]), refused ([ErrRefused]), or the context has ended
//
// Every reopening continues from the last position that was read. After a drop or a
// rename the stream ends instead: a collection that is renamed to the name of the old
// one brings documents that no stream carries. [Classify] says which error leads where.
// "Restart at now" is nowhere.
//
// # Catching up
//
// A stream has caught up when a reply is not full and its position is within 15 s of the
// operation time in that reply. Until then the server may have to scan any length of
// oplog for one reply, and a client that gives up and asks again makes it start over. So
// a request has no fixed limit while the stream catches up, at the start as after an
// interruption: it ends when the server has not answered pings on another connection for
// [Options.Silence]. A connection that is dead by itself, beside a server that answers,
// is closed by TCP keep-alive, or after [Options.CatchUp], which doubles each time that
// it was not enough. The first batches are small and grow while the server fills them.
// The liveness probe hears heartbeats as long as the server answers pings.
//
// # Silence
//
// A stream whose replica set has lost its majority idles without an error: each
// reply is empty, and its post-batch token stands still. Even an idle replica set
// writes to its oplog every 10 s (periodicNoopIntervalSecs), so that the token of
// a live stream moves. A stream that has caught up and does not move for
// [Options.Silence] is reopened, and after twice that the heartbeats for the liveness
// probe end. Through mongos, the token also stands while the slowest shard scans its
// oplog: a stream that is far behind has [Options.CatchUp].
package watch
