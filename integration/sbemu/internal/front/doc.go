// Package front is the AMQP front of the broker: connections, sessions and
// links on one side, package broker on the other.
//
// A connection has a goroutine that reads and handles frames, and one that
// writes. What a link does to the broker happens on the goroutine that read
// the frame; what the broker does to a link happens on whatever goroutine
// caused it, and appends frames to the connection's output, which the writer
// sends as one write when it gets to it.
//
// Locks are taken in the order broker, connection: with a connection's lock
// held the broker is never called. Back-pressure follows from that: a link
// without credit, without session window or with too much output waiting
// refuses the delivery ([broker.Consumer]) and asks for it again when there is
// room.
package front
