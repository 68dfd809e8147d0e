// Package wire encodes and decodes AMQP 1.0: primitive and composite types,
// frames and the performatives that connections exchange.
//
// It is built for a server that moves many small messages. Decoding returns slices
// of the frame's bytes; encoding appends to a buffer that the caller owns. Only
// requested values are decoded: a message passes through as bytes, and
// [Decoder.Skip] only checks it.
//
// Every length and count that a peer announces is checked against the available
// bytes before anything is allocated. Nesting is limited to [MaxDepth]. A hostile
// frame therefore costs no more than its own size.
//
// The numbers are those of the OASIS standard, part 1 (types) and part 2
// (transport), version 1.0.
package wire
