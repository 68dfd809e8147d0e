package broker

import "github.com/penstock-cdc/penstock/integration/sbemu/internal/wire"

// Conditions of the errors that Service Bus reports. azservicebus (internal/errors.go)
// defines which of them a client may retry.
const (
	CondInternalError      wire.Symbol = "amqp:internal-error"
	CondNotFound           wire.Symbol = "amqp:not-found"
	CondUnauthorized       wire.Symbol = "amqp:unauthorized-access"
	CondDecodeError        wire.Symbol = "amqp:decode-error"
	CondNotAllowed         wire.Symbol = "amqp:not-allowed"
	CondInvalidField       wire.Symbol = "amqp:invalid-field"
	CondNotImplemented     wire.Symbol = "amqp:not-implemented"
	CondResourceLimit      wire.Symbol = "amqp:resource-limit-exceeded"
	CondConnectionForced   wire.Symbol = "amqp:connection:forced"
	CondFramingError       wire.Symbol = "amqp:connection:framing-error"
	CondErrantLink         wire.Symbol = "amqp:session:errant-link"
	CondHandleInUse        wire.Symbol = "amqp:session:handle-in-use"
	CondUnattachedHandle   wire.Symbol = "amqp:session:unattached-handle"
	CondDetachForced       wire.Symbol = "amqp:link:detach-forced"
	CondMessageSize        wire.Symbol = "amqp:link:message-size-exceeded"
	CondTimeout            wire.Symbol = "com.microsoft:timeout"
	CondServerBusy         wire.Symbol = "com.microsoft:server-busy"
	CondEntityDisabled     wire.Symbol = "com.microsoft:entity-disabled"
	CondMessageLockLost    wire.Symbol = "com.microsoft:message-lock-lost"
	CondSessionLockLost    wire.Symbol = "com.microsoft:session-lock-lost"
	CondSessionUnavailable wire.Symbol = "com.microsoft:session-cannot-be-locked"
	CondMessageNotFound    wire.Symbol = "com.microsoft:message-not-found"
	CondArgument           wire.Symbol = "com.microsoft:argument-error"
	CondArgumentOutOfRange wire.Symbol = "com.microsoft:argument-out-of-range"
	CondDeadLetter         wire.Symbol = "com.microsoft:dead-letter"
	CondOperationCancelled wire.Symbol = "com.microsoft:operation-cancelled"
)

func errMessageLockLost() *wire.Error {
	return wire.Errorf(CondMessageLockLost, "The lock supplied is invalid. Either the lock expired, "+
		"or the message has already been removed from the queue, or was received by a different receiver instance.")
}

// SessionLockLost returns the error for a receiver that has lost its session.
func SessionLockLost() *wire.Error {
	return wire.Errorf(CondSessionLockLost,
		"The session lock has expired on the MessageSession. Accept a new MessageSession.")
}

func errDeleted(path string) *wire.Error {
	return wire.Errorf(CondNotFound, "The messaging entity '%s' could not be found.", path)
}

// Updated returns the reason with which links of a changed entity are detached.
func Updated(path string) *wire.Error {
	return wire.Errorf(CondDetachForced, "The link is force detached by the broker because the entity '%s' was updated.", path)
}
