// Package changestream turns the oplog into change events.
//
// A stream watches a collection, a database or everything. Its position is a
// token: the cluster time, the place within a transaction, and whether it stands
// before the events of that time (a high-watermark, which an idle stream's
// post-batch token is), at an event, or at the invalidation that follows one.
// Tokens are hexadecimal text in _data and opaque to clients; they resemble the
// server's in length and in nothing else.
//
// Refused by name: fullDocument "whenAvailable" and "required", pre-images,
// showExpandedEvents, and splitting of large events.
package changestream
