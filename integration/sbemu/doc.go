// Package sbemu is a stand-in for Azure Service Bus: an AMQP 1.0 server, in
// memory, that the unmodified SDKs connect to. It is for development and tests.
package sbemu
