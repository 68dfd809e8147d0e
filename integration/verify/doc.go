// Package verify compares the results of a pipeline's run with the event store: it folds
// the store with a workload's independent fold and compares every read model. It shares no
// code with the projector. [Reader] and [Observer] watch the read models meanwhile.
package verify
