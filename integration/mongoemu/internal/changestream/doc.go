// Package changestream turns the oplog into change events.
//
// A stream watches a collection, a database or everything. Its position is a token. A
// token has a cluster time, a place within a transaction, and one of three kinds: before
// all events of that time (a high watermark, which an idle stream returns as its
// post-batch token), at an event, or at the invalidation after an event. Tokens are
// hexadecimal text in _data and opaque to clients. They have about the length of the
// server's tokens, but another format.
//
// These are refused with an error that names them: fullDocument "whenAvailable" and
// "required", pre-images, showExpandedEvents, and splitting of large events.
package changestream
