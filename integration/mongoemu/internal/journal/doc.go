// Package journal is an append-only file of frames. Each frame has its length and a
// checksum, so reading stops at the first incomplete or damaged frame.
package journal
