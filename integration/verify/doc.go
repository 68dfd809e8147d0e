// Package verify checks what a run of the pipeline left behind against what the
// event store says: it folds the store with a workload's oracle and compares
// every read model. It shares no code with the projector.
package verify
