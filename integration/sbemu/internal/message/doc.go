// Package message reads what a broker needs out of encoded AMQP messages and
// writes them again with the broker's own annotations, without decoding the
// rest.
//
// [Parse] checks the whole structure once, so that nothing malformed reaches
// a receiver, and keeps the sections as bytes. A [Message] never changes and
// is shared by all subscriptions; what differs from delivery to delivery is a
// [Stamp], which [Message.Append] writes into the header and the annotations:
//
//	header                  delivery count from the stamp
//	delivery-annotations    the sender's, and x-opt-lock-token
//	message-annotations     the sender's, and the broker's
//	properties ┐
//	application-properties  as received
//	body       │
//	footer     ┘
package message
