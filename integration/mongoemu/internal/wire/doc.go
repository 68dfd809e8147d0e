// Package wire reads and writes MongoDB's wire messages: OP_MSG with its two kinds of
// sections and its checksum, and the legacy OP_QUERY and OP_REPLY, which a driver uses
// for its first hello. The server does not negotiate compression, so a compressed message
// is an error.
//
// Invalid input from a peer never makes the reader panic or allocate more than a small
// multiple of the bytes received.
package wire
