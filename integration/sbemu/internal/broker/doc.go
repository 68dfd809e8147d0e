// Package broker implements what a Service Bus namespace does with messages,
// independent of any protocol. A [Namespace] has [Destination]s (topics and
// queues), which accept messages. Its [Queue]s (queues, subscriptions and their
// dead-letter queues) deliver them to [Receiver]s, each of a queue or of one of
// its sessions.
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
// If the time to live of an available message ends, the queue drops the message,
// or dead-letters it if so configured. A locked message expires when its lock ends
// at the earliest, a deferred message when it is requested.
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
// A session delivers its messages in the order of acceptance. A message that
// becomes available again returns to its old place. A session exists while it has
// messages or state or is locked.
package broker
