// Package shadow handles the collections in which generations of read models are built:
// it creates them like the live ones, and renames them. Each function looks at what is
// there and can be repeated. A collection is recognised by its UUID, which a rename
// keeps: names can be taken again, UUIDs cannot.
//
// # Sharded clusters
//
// A sharded collection is copied with its shard key and its zones. A rename takes both
// along, and keeps the UUID. The server refuses a rename over a collection that has
// zones, so these are removed just before; the shadow has the same ones. A coordinator
// that is killed in between leaves a live collection without zones, until its successor
// completes the rename.
package shadow
