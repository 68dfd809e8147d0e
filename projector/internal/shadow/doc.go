// Package shadow manages the collections in which generations of read models are built.
// It creates them with the layout of the live ones, and renames them. Each function first
// reads what exists, and can be repeated. Collections are identified by their UUIDs,
// because a rename keeps the UUID and a name can be used again.
//
// # Sharded clusters
//
// The shadow of a sharded collection gets its shard key and its zones. A rename keeps
// both, and the UUID. The server refuses a rename over a collection with zones, so the
// target's zones are removed just before. The shadow has the same ones. A coordinator
// that is killed in between leaves a live collection without zones, until its successor
// completes the rename.
package shadow
