// Package readmodel reads and writes read models in MongoDB, in groups: what all
// sessions of a projector want at about the same time travels together.
//
// # Watermarks
//
// A read model document has the aggregate's id as _id, the id of its last event as
// lastEventId and the time of its last change as lastUpdatedAt. An aggregate
// without a document keeps its watermark in the collection watermarks, under
// {projection, aggregateId}. Where the document exists, it alone is the watermark.
package readmodel
