// Package store keeps the collections: documents as raw bytes in insertion
// order, and indexes as ordered trees of encoded keys.
//
// One lock guards everything: readers share it, a writer has it alone. Trees
// are copy-on-write, so a transaction takes a snapshot of all collections in a
// step and works on its own copy:
//
//	      first statement          commit
//	idle ────────────────▶ open ───────────▶ committed
//	                        │  abort, expiry, conflict
//	                        └───────────────▶ aborted
//
// Each document and each unique key that an open transaction writes is reserved
// for it. Another transaction that wants it, or that finds it changed since its
// own snapshot, fails with WriteConflict; a plain write waits until the
// transaction has ended. What is reserved cannot fail at the commit, which
// applies the transaction's operations to the shared trees and appends them to
// the log under one cluster time.
package store
