// Package reconcile makes read models converge even if the broker loses messages. A
// message that the broker lost, expired or dead-lettered is detected only at its
// aggregate's next event, and an aggregate may have none. So one process of a pipeline
// periodically starts a sweep over all aggregates. A sweep compares the last event of
// each aggregate in the event store with the watermark of its read model, and folds the
// read models that are behind from the event store.
//
//	           due                job done
//	waiting ─────────▶ sweeping ───────────▶ waiting, verified through the start of the sweep
//	                    │   ▲   job failed
//	                    │   └── or gone ─────▶ waiting, due again after a pause
//	                    ▼
//	               another process continues the same job
//
// The sweeps are jobs, on which every process of the pipeline works. For each projection,
// this package stores when the next sweep is due and the time through which the read
// models are verified: every event that was stored before the start of a finished sweep
// is in its read model, or its aggregate is parked. A sweep gives events in flight time
// to arrive, so that it does not repeat the work of the stream. It also removes documents of
// older generations: see package history.
//
// If ids only increase, an event that the topic skipped below the watermark leaves no gap in
// the ids. So the sweep is then a verification with repair. Two kinds of events still cannot
// be found: an event that was deleted from the event store, and an event that was inserted
// below its aggregate's last event after a fold had passed it and that changes no field of
// the read model.
//
// # One at a time
//
// The lease is a document in the collection reconciliations, and the server's clock
// measures it. If two processes act as its holder, nothing breaks: only one of them can
// store the id of a new sweep, and the sweep's writes have the same guards as all others.
package reconcile
