// Package front serves the broker over AMQP: it connects connections, sessions
// and links to package broker.
//
// A connection has one goroutine that reads and handles frames, and one that
// writes. A link calls the broker on the goroutine that read the frame. The broker
// calls a link on the goroutine that caused the change. That call appends frames to
// the connection's output, and the writer sends all pending output in one write.
//
// Locks are taken in the order broker, connection: the broker is never called
// with a connection's lock held. Back-pressure follows from this order. A link
// without credit, without session window or with too much pending output refuses
// the delivery ([broker.Consumer]). It asks for the delivery again when it has room.
package front
