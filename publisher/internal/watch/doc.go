// Package watch reads the change stream of the events collection. It delivers every insert,
// in order, as raw BSON, and never skips one.
//
// # From the server to the handler
//
//	Source ──▶ ChangeStream ──▶ reader ──▶ prefetch queue ──▶ handler
//	 opens       one cursor      parses,      bounded in        submits to the
//	                             counts       bytes             dispatcher
//
// The reader is a goroutine that reads ahead of the handler, so that waiting for the
// network overlaps with publishing. If the handler is slower, the queue fills and the
// reader stops. The reader then makes no requests, so the back-pressure reaches the server.
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
// Every reopening continues from the last position that was read, never from the present.
// After a drop or a rename the stream ends instead: if another collection is renamed to the
// name of the old one, no stream carries the documents that it already has. [Classify] gives the class of each error.
//
// # Catching up
//
// A stream has caught up when a reply is not full and its position is within 15 s of the
// operation time in that reply. Until then one reply can require the server to scan any
// length of oplog, and a client that gives up and asks again makes it start over. So a
// request has no fixed limit while the stream catches up, at the start and after an
// interruption. It ends when the server has not answered pings on another connection for
// [Options.Silence]. If only the connection of the stream is dead, TCP keep-alive closes
// it, or the request ends after [Options.CatchUp], which doubles each time that it was too
// short. The liveness probe gets heartbeats as long as the server answers pings. Meanwhile
// penstock_publisher_stream_caught_up is 0, and the lag is measured from the cluster time of
// the position.
//
// # Silence
//
// If the replica set has lost its majority, the stream is idle without an error: each reply
// is empty, and its post-batch token does not change. Even an idle replica set writes to
// its oplog every 10 s (periodicNoopIntervalSecs), so the token of a healthy stream moves.
// A stream that has caught up and does not move for [Options.Silence] is reopened. After
// twice that time the heartbeats for the liveness probe end. Through mongos, the token also
// stays the same while the slowest shard scans its oplog, so a stream that is far behind
// has [Options.CatchUp].
package watch
