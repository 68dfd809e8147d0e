// Package rawclient is an AMQP client that does frame by frame what a test
// tells it, also what no SDK would do, and that is fast enough to load the
// emulator.
package rawclient
