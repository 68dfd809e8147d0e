// Package journal is a file of frames that is only appended to: each has its
// length and a checksum, so that reading stops where a write was cut short.
package journal
