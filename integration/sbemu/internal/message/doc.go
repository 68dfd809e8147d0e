// Package message reads the parts of encoded AMQP messages that a broker needs,
// and encodes messages again with the broker's annotations. It does not decode
// the rest.
//
// [Parse] checks the whole structure once, so that no malformed message reaches
// a receiver, and keeps the sections as bytes. A [Message] never changes, and all
// subscriptions share it. The values that differ between deliveries are in a
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
