// Package mongox connects to the three stores (event store, state, read models)
// with the concerns that Penstock's promises rest on, and says what a failed
// command means for its caller.
package mongox
