// Package store keeps the collections: documents as raw bytes in insertion order, and
// indexes as ordered trees of encoded keys.
//
// One lock guards everything. Readers share it; a writer holds it alone. Trees are
// copy-on-write, so a transaction takes a snapshot of all collections in one step and
// works on its own copy:
//
//	      first statement          commit
//	idle ────────────────▶ open ───────────▶ committed
//	                        │  abort, expiry, conflict
//	                        └───────────────▶ aborted
//
// Each document and each unique key that an open transaction writes is reserved for it.
// If another transaction needs the same document or key, or finds it changed after its own
// snapshot, it fails with WriteConflict. A write outside a transaction waits until the
// transaction has ended. Because of the reservations, no conflict is possible at the commit.
// The commit applies the transaction's operations to the shared trees and appends them to
// the log under one cluster time.
package store
