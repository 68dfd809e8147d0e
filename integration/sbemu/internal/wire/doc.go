// Package wire encodes and decodes AMQP 1.0: primitive and composite types,
// frames and the performatives that connections exchange.
//
// It is made for a server that moves many small messages. Decoding works on
// the bytes of one frame and hands out slices of them; encoding appends to a
// buffer that the caller owns. Nothing is decoded that nobody asked for: a
// message travels through as bytes, and only [Decoder.Skip] walks over it.
//
// Every length and count that a peer announces is checked against the bytes
// that are really there before anything is allocated, and nesting is limited
// to [MaxDepth], so that a hostile frame costs no more than its own size.
//
// The numbers are those of the OASIS standard, part 1 (types) and part 2
// (transport), version 1.0.
package wire
