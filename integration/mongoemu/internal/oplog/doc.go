// Package oplog is the bounded, ordered log of all writes. Change streams read it.
// Entries beyond its bounds are dropped for good.
package oplog
