package sbus

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
)

// Class says what to do about an error of the SDK.
type Class int

// The classes.
const (
	// ClassNone is no error.
	ClassNone Class = iota
	// ClassTransient passes: try again after a backoff. Errors that nobody knows are
	// transient.
	ClassTransient
	// ClassBusy is a broker that throttles or is full: wait for at least 2 s.
	ClassBusy
	// ClassTimeout ran out of time: no session was free, no message came, or it is
	// not known whether a send arrived.
	ClassTimeout
	// ClassLockLost is the lock of a message or a session that has gone to another
	// receiver, or a session that another receiver holds.
	ClassLockLost
	// ClassTooLarge is a message or batch above the entity's limit: it never fits.
	ClassTooLarge
	// ClassConnectionLost is a link or connection that is gone: open it anew.
	ClassConnectionLost
	// ClassRefused is a request that the broker refuses as it stands, such as a batch
	// of several sessions on a partitioned topic: the same one fails again, another
	// may pass.
	ClassRefused
	// ClassFatal needs an operator: credentials, a missing or disabled entity.
	ClassFatal
	// ClassStopped is the caller's own doing: its context was cancelled, or it has
	// closed the sender, receiver or client.
	ClassStopped
)

var classNames = [...]string{
	ClassNone:           "none",
	ClassTransient:      "transient",
	ClassBusy:           "busy",
	ClassTimeout:        "timeout",
	ClassLockLost:       "lock_lost",
	ClassTooLarge:       "too_large",
	ClassConnectionLost: "connection_lost",
	ClassRefused:        "refused",
	ClassFatal:          "fatal",
	ClassStopped:        "stopped",
}

// String is the class in a word, for logs and metrics.
func (c Class) String() string {
	if c < 0 || int(c) >= len(classNames) {
		return "unknown"
	}
	return classNames[c]
}

// conditions are the AMQP error conditions that say more than where they came
// from. Those of Service Bus are listed in
// https://learn.microsoft.com/azure/service-bus-messaging/service-bus-amqp-troubleshoot
var conditions = map[amqp.ErrCond]Class{
	"com.microsoft:server-busy":              ClassBusy,
	"com.microsoft:timeout":                  ClassTimeout,
	"com.microsoft:operation-cancelled":      ClassTransient,
	"com.microsoft:message-lock-lost":        ClassLockLost,
	"com.microsoft:session-lock-lost":        ClassLockLost,
	"com.microsoft:session-cannot-be-locked": ClassLockLost,
	"com.microsoft:entity-disabled":          ClassFatal,
	"com.microsoft:auth-failed":              ClassFatal,
	"com.microsoft:argument-error":           ClassRefused,
	"com.microsoft:argument-out-of-range":    ClassRefused,
	"com.microsoft:container-close":          ClassConnectionLost,
	"com.microsoft:store-lock-lost":          ClassTransient,
	"com.microsoft:partition-not-owned":      ClassTransient,
	"com.microsoft:entity-already-exists":    ClassRefused,
	"com.microsoft:message-not-found":        ClassLockLost,
	"com.microsoft:session-not-found":        ClassLockLost,

	amqp.ErrCondResourceLimitExceeded: ClassBusy,
	amqp.ErrCondMessageSizeExceeded:   ClassTooLarge,
	amqp.ErrCondUnauthorizedAccess:    ClassFatal,
	amqp.ErrCondNotFound:              ClassFatal,
	amqp.ErrCondResourceDeleted:       ClassFatal,
	amqp.ErrCondNotAllowed:            ClassRefused,
	amqp.ErrCondNotImplemented:        ClassRefused,
	amqp.ErrCondInvalidField:          ClassRefused,
	amqp.ErrCondPreconditionFailed:    ClassRefused,
	amqp.ErrCondDecodeError:           ClassRefused,
	amqp.ErrCondResourceLocked:        ClassTransient,
	amqp.ErrCondInternalError:         ClassTransient,
	amqp.ErrCondDetachForced:          ClassConnectionLost,
	amqp.ErrCondTransferLimitExceeded: ClassConnectionLost,
	amqp.ErrCondStolen:                ClassConnectionLost,
	amqp.ErrCondConnectionForced:      ClassConnectionLost,
	amqp.ErrCondFramingError:          ClassConnectionLost,
}

// Classify says what to do about an error that azservicebus v1.11 returned.
//
// The SDK hides causes: its [azservicebus.Error] does not unwrap, so a lost
// session lock arrives as "connection lost", with its condition in the text
// alone. Classify reads the text there, and only there.
func Classify(err error) Class {
	switch {
	case err == nil:
		return ClassNone
	case errors.Is(err, azservicebus.ErrMessageTooLarge):
		return ClassTooLarge
	case errors.Is(err, context.Canceled):
		return ClassStopped
	}
	var sb *azservicebus.Error
	if errors.As(err, &sb) {
		return classifySDK(sb)
	}
	var amqpErr *amqp.Error
	if errors.As(err, &amqpErr) {
		if class, ok := conditions[amqpErr.Condition]; ok {
			return class
		}
	}
	var linkErr *amqp.LinkError
	var sessionErr *amqp.SessionError
	var connErr *amqp.ConnError
	if errors.As(err, &linkErr) || errors.As(err, &sessionErr) || errors.As(err, &connErr) {
		return ClassConnectionLost
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return ClassTimeout
	}
	var netErr net.Error
	if errors.As(err, &netErr) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ClassConnectionLost
	}
	return ClassTransient
}

func classifySDK(err *azservicebus.Error) Class {
	switch err.Code {
	case azservicebus.CodeLockLost:
		return ClassLockLost
	case azservicebus.CodeTimeout:
		return ClassTimeout
	case azservicebus.CodeUnauthorizedAccess, azservicebus.CodeNotFound:
		return ClassFatal
	case azservicebus.CodeClosed:
		return ClassStopped
	case azservicebus.CodeConnectionLost:
		if class, ok := conditions[conditionIn(err.Error())]; ok {
			return class
		}
		return ClassConnectionLost
	default:
		return ClassTransient
	}
}

// conditionIn finds the condition in the text of an [amqp.Error], which prints as
// "*Error{Condition: <condition>, Description: …".
func conditionIn(text string) amqp.ErrCond {
	_, rest, ok := strings.Cut(text, "*Error{Condition: ")
	if !ok {
		return ""
	}
	condition, _, _ := strings.Cut(rest, ",")
	return amqp.ErrCond(condition)
}
