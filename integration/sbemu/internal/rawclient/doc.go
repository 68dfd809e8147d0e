// Package rawclient is an AMQP client that sends exactly the frames that a test
// specifies, including frames that no SDK sends. It is fast enough to load the
// emulator.
package rawclient
