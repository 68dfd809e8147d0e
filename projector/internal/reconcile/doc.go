// Package reconcile makes read models converge whatever the broker does. A message that the
// broker lost, expired or dead-lettered is found only by its aggregate's next event, and
// an aggregate may have none. So one process of a pipeline sweeps all aggregates now and
// then: it compares the last event in the event store with the watermark of each read
// model, and what is behind is folded from the event store.
//
//	           due                job done
//	waiting ─────────▶ sweeping ───────────▶ waiting, verified through the start of the sweep
//	                    │   ▲   job failed
//	                    │   └── or gone ─────▶ waiting, due again after a pause
//	                    ▼
//	               another process goes on with the same job
//
// The sweeps are jobs, on which every process of the pipeline works. What this package
// keeps is when the next one of each projection is due, and through which time the read
// models are verified: every event that was stored before the start of a finished sweep is
// in its read model, or its aggregate is parked. A sweep waits until the events that are
// under way have had time to arrive, so that it does not repeat the work of the stream.
//
// In between, the holder of the lease heals the dead-letter queue: package deadletter.
//
// # One at a time
//
// The lease is in the collection reconciliations, with the server's clock. If two
// processes believe that they hold it, nothing breaks: a sweep's job has an id of its own
// that only one of them can store, and the folds are guarded like any other.
package reconcile
