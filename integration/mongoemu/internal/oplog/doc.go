// Package oplog is the bounded, ordered log of what was written: change streams
// read it, and what falls out of its bounds is gone for good.
package oplog
