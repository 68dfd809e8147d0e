package sbus

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
)

// Class says what to do about an error of the SDK, of go-amqp or of package sessions.
type Class int

// The classes.
const (
	// ClassNone is no error.
	ClassNone Class = iota
	// ClassTransient may succeed later: retry after a backoff. Unknown errors are
	// transient.
	ClassTransient
	// ClassBusy means that the broker throttles or is full: wait for at least 2 s.
	ClassBusy
	// ClassTimeout means that time ran out: no session was free, no message came, or it is
	// unknown whether a send arrived.
	ClassTimeout
	// ClassLockLost means that the lock of a message or session has ended, or that another
	// receiver holds it.
	ClassLockLost
	// ClassTooLarge means that a message or batch is above the entity's limit. A retry
	// cannot succeed.
	ClassTooLarge
	// ClassConnectionLost means that a link or connection is gone: open a new one.
	ClassConnectionLost
	// ClassRefused means that the broker refuses this request, such as a batch of several
	// sessions on a partitioned topic. The same request fails again, another one may
	// succeed.
	ClassRefused
	// ClassFatal needs an operator: wrong credentials, a missing or disabled entity.
	ClassFatal
	// ClassStopped means that the caller cancelled its context or closed the sender,
	// receiver or client.
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

// String is the class as one word, for logs and metrics.
func (c Class) String() string {
	return classNames[c]
}

// conditions are the AMQP error conditions that determine a class. Those of Service Bus are
// documented in
// https://learn.microsoft.com/azure/service-bus-messaging/service-bus-amqp-troubleshoot
var conditions = map[amqp.ErrCond]Class{
	"com.microsoft:server-busy":              ClassBusy,
	"com.microsoft:timeout":                  ClassTimeout,
	"com.microsoft:operation-cancelled":      ClassTransient,
	"com.microsoft:message-lock-lost":        ClassLockLost,
	"com.microsoft:message-not-found":        ClassLockLost,
	"com.microsoft:session-lock-lost":        ClassLockLost,
	"com.microsoft:session-cannot-be-locked": ClassLockLost,
	"com.microsoft:session-not-found":        ClassLockLost,
	"com.microsoft:entity-disabled":          ClassFatal,
	"com.microsoft:auth-failed":              ClassFatal,
	"com.microsoft:argument-error":           ClassRefused,
	"com.microsoft:argument-out-of-range":    ClassRefused,

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
}

// Classify gives the class of an error of azservicebus v1.11, go-amqp v1.7 or package
// sessions.
//
// The SDK hides causes: its [azservicebus.Error] does not unwrap. The SDK also reports a
// lost connection for each condition that it does not know, such as an expired session lock
// or an argument that the broker refuses. Then the condition is only in the text of the
// error, and Classify parses the text.
func Classify(err error) Class {
	switch {
	case err == nil:
		return ClassNone
	case errors.Is(err, azservicebus.ErrMessageTooLarge):
		return ClassTooLarge
	case errors.Is(err, context.Canceled):
		return ClassStopped
	}
	if sdk, ok := errors.AsType[*azservicebus.Error](err); ok {
		return classifySDK(sdk)
	}
	if condition, ok := errors.AsType[*amqp.Error](err); ok {
		if class, ok := conditions[condition.Condition]; ok {
			return class
		}
		if endsLink(condition.Condition) {
			return ClassConnectionLost
		}
	}
	// The SDK does not export its error of a management request, but that has this method.
	// The error of package sessions has the same method.
	var rpc interface{ RPCCode() int }
	if errors.As(err, &rpc) {
		return classifyStatus(rpc.RPCCode())
	}
	if identity, ok := errors.AsType[*azidentity.AuthenticationFailedError](err); ok {
		return classifyIdentity(identity)
	}
	var network net.Error
	switch {
	case linkEnded(err):
		return ClassConnectionLost
	case errors.Is(err, context.DeadlineExceeded): // also a net.Error
		return ClassTimeout
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ClassConnectionLost
	}
	return ClassTransient
}

// Broken reports whether the sender or receiver that returned err must be closed and
// replaced. With the SDK's retries off, it does not recover from a lost connection, and
// never from a link that was detached with a condition such as server-busy: [Classify]
// gives ClassBusy then, and every later call fails at once.
func Broken(err error) bool {
	if sdk, ok := errors.AsType[*azservicebus.Error](err); ok {
		switch sdk.Code {
		case azservicebus.CodeLockLost, azservicebus.CodeTimeout:
			return false
		case azservicebus.CodeConnectionLost:
			return !answered(sdk.Error())
		default:
			return true
		}
	}
	return linkEnded(err) || Classify(err) == ClassConnectionLost
}

// rejectedWithoutReason is go-amqp's error for a message that the peer rejects without
// a condition.
const rejectedWithoutReason = "the peer rejected the message without specifying an error"

// answered reports whether an error that the SDK takes for a lost connection is the
// broker's answer to one message: a rejection with a condition that the SDK does not know.
// The end of a link can have the same text; then the SDK has tried once to attach the link
// again, and tries again at the next use.
func answered(text string) bool {
	if strings.Contains(text, rejectedWithoutReason) {
		return true
	}
	condition := conditionIn(text)
	return condition != "" && !endsLink(condition) && conditions[condition] != ClassLockLost
}

// endsLink reports whether a condition says that a link, session or connection has
// ended.
func endsLink(condition amqp.ErrCond) bool {
	for _, prefix := range []string{"amqp:link:", "amqp:session:", "amqp:connection:"} {
		if strings.HasPrefix(string(condition), prefix) {
			return true
		}
	}
	return false
}

func linkEnded(err error) bool {
	var link *amqp.LinkError
	var session *amqp.SessionError
	var connection *amqp.ConnError
	return errors.As(err, &link) || errors.As(err, &session) || errors.As(err, &connection)
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
		text := err.Error()
		condition := conditionIn(text)
		if class, ok := conditions[condition]; ok {
			return class
		}
		if condition != "" && !endsLink(condition) {
			return ClassTransient
		}
		if strings.Contains(text, rejectedWithoutReason) {
			return ClassRefused
		}
		if status := statusIn(text); status != 0 {
			return classifyStatus(status)
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

// statusIn finds the status in the text of a failed management request, which
// prints as "rpc: failed, status code <status> and description: …"; 0 if there
// is none.
func statusIn(text string) int {
	_, rest, ok := strings.Cut(text, "rpc: failed, status code ")
	if !ok {
		return 0
	}
	digits, _, _ := strings.Cut(rest, " ")
	status, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return status
}

// classifyStatus gives the class of a management request's status, which is an HTTP status
// code.
// https://learn.microsoft.com/azure/service-bus-messaging/service-bus-amqp-request-response
func classifyStatus(status int) Class {
	switch status {
	case http.StatusBadRequest:
		return ClassRefused
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return ClassFatal
	case http.StatusGone:
		return ClassLockLost
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return ClassBusy
	case http.StatusRequestTimeout:
		return ClassTimeout
	default:
		return ClassTransient
	}
}

// classifyIdentity distinguishes wrong credentials from an identity service that is down.
func classifyIdentity(err *azidentity.AuthenticationFailedError) Class {
	if err.RawResponse == nil {
		return ClassTransient
	}
	switch err.RawResponse.StatusCode {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
		return ClassFatal
	default:
		return ClassTransient
	}
}
