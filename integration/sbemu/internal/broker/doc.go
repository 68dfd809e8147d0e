// Package broker is what a Service Bus namespace does with messages, without
// a protocol: a [Namespace] of [Destination]s (topics and queues) that take
// messages in, and [Queue]s (queues, subscriptions and their dead-letter
// queues) that hand them out to [Receiver]s, of a queue or of one of its
// sessions.
//
// A message in a queue:
//
//	scheduled ──due──▶ available ◀──────────────── abandon, lock expired: count+1
//	    │ cancel          │   ▲  ◀──────────────── release, session released
//	    ▼             deliver │                │
//	  (gone)              ▼   │                │
//	                    locked ────────────────┘
//	                      │ complete ─▶ (gone)
//	                      │ dead-letter, or count = maximum ─▶ dead-letter queue
//	                      └ defer ─▶ deferred ◀─▶ locked, by sequence number
//
// An available message whose time to live has ended is dropped, or dead-lettered
// where the queue says so; a locked one not before its lock ends, a deferred one
// when it is asked for.
//
// A session of a queue that requires sessions:
//
//	            accept (by id, or the next that is available)
//	unlocked ───────────────────────────────────▶ locked by one receiver
//	   ▲                                            │    renew: lock lasts on
//	   ├── receiver closed: messages back ──────────┤
//	   └── lock expired or taken: messages back, ───┘
//	       count+1, link detached (session-lock-lost)
//
// Its messages are handed out in the order of acceptance, and one that comes
// back takes its old place. A session exists while it has messages or state or
// is locked.
package broker
