// Package wire reads and writes MongoDB's wire messages: OP_MSG with its two
// kinds of sections and its checksum, and the legacy OP_QUERY and OP_REPLY that
// a driver's first hello travels in. Compression is never agreed on, so a
// compressed message is an error.
//
// Whatever a peer sends, reading it neither panics nor allocates more than a
// small multiple of what has arrived.
package wire
