package sbus_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"testing"
	"unsafe"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"github.com/penstock-cdc/penstock/pkg/sbus"
)

// sdkError makes the error that the SDK makes of inner; only the SDK itself can.
func sdkError(t *testing.T, code azservicebus.Code, inner error) error {
	t.Helper()
	e := &azservicebus.Error{Code: code}
	field := reflect.ValueOf(e).Elem().FieldByName("innerErr")
	if !field.IsValid() {
		t.Fatal("azservicebus.Error has no innerErr any more: see whether it unwraps now")
	}
	reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Set(reflect.ValueOf(inner))
	if errors.Is(e, inner) {
		t.Fatal("azservicebus.Error unwraps now: Classify need not read its text")
	}
	return e
}

// rpcError is the SDK's error of a management request, which is not exported.
type rpcError struct{ code int }

func (e rpcError) Error() string {
	return fmt.Sprintf("rpc: failed, status code %d and description: something", e.code)
}
func (e rpcError) RPCCode() int { return e.code }

func condition(c amqp.ErrCond) *amqp.Error {
	return &amqp.Error{Condition: c, Description: "the broker's words, with a comma"}
}

func identityError(status int) error {
	e := &azidentity.AuthenticationFailedError{}
	if status != 0 {
		e.RawResponse = &http.Response{StatusCode: status}
	}
	return e
}

func TestClassify(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err    error
		want   sbus.Class
		broken bool
	}{
		"nil":                     {nil, sbus.ClassNone, false},
		"unknown":                 {errors.New("unknown"), sbus.ClassTransient, false},
		"canceled":                {fmt.Errorf("send: %w", context.Canceled), sbus.ClassStopped, false},
		"deadline":                {context.DeadlineExceeded, sbus.ClassTimeout, false},
		"too large":               {fmt.Errorf("add: %w", azservicebus.ErrMessageTooLarge), sbus.ClassTooLarge, false},
		"batch too large":         {condition(amqp.ErrCondMessageSizeExceeded), sbus.ClassTooLarge, false},
		"busy":                    {condition("com.microsoft:server-busy"), sbus.ClassBusy, false},
		"refused link":            {fmt.Errorf("accept: %w", condition(amqp.ErrCondDetachForced)), sbus.ClassConnectionLost, true},
		"busy detach":             {&amqp.LinkError{RemoteErr: condition("com.microsoft:server-busy")}, sbus.ClassBusy, true},
		"full":                    {condition(amqp.ErrCondResourceLimitExceeded), sbus.ClassBusy, false},
		"timeout":                 {condition("com.microsoft:timeout"), sbus.ClassTimeout, false},
		"no session":              {sdkError(t, azservicebus.CodeTimeout, condition("com.microsoft:timeout")), sbus.ClassTimeout, false},
		"cancelled by the broker": {condition("com.microsoft:operation-cancelled"), sbus.ClassTransient, false},
		"message lock lost":       {sdkError(t, azservicebus.CodeLockLost, condition("com.microsoft:message-lock-lost")), sbus.ClassLockLost, false},
		"session lock lost":       {sdkError(t, azservicebus.CodeConnectionLost, &amqp.LinkError{RemoteErr: condition("com.microsoft:session-lock-lost")}), sbus.ClassLockLost, true},
		"session is held":         {&amqp.LinkError{RemoteErr: condition("com.microsoft:session-cannot-be-locked")}, sbus.ClassLockLost, true},
		"unauthorized":            {sdkError(t, azservicebus.CodeUnauthorizedAccess, condition(amqp.ErrCondUnauthorizedAccess)), sbus.ClassFatal, true},
		"not found by code":       {sdkError(t, azservicebus.CodeNotFound, rpcError{404}), sbus.ClassFatal, true},
		"not found":               {&amqp.LinkError{RemoteErr: condition(amqp.ErrCondNotFound)}, sbus.ClassFatal, true},
		"disabled":                {condition("com.microsoft:entity-disabled"), sbus.ClassFatal, false},
		"not allowed":             {condition(amqp.ErrCondNotAllowed), sbus.ClassRefused, false},
		"argument":                {sdkError(t, azservicebus.CodeConnectionLost, condition("com.microsoft:argument-error")), sbus.ClassRefused, false},
		"no condition":            {sdkError(t, azservicebus.CodeConnectionLost, errors.New("the peer rejected the message without specifying an error")), sbus.ClassRefused, false},
		"unknown condition":       {sdkError(t, azservicebus.CodeConnectionLost, condition("com.microsoft:new")), sbus.ClassTransient, false},
		"detach forced":           {sdkError(t, azservicebus.CodeConnectionLost, condition(amqp.ErrCondDetachForced)), sbus.ClassConnectionLost, true},
		"closed":                  {sdkError(t, azservicebus.CodeClosed, errors.New("link was closed by user")), sbus.ClassStopped, true},
		"connection lost":         {sdkError(t, azservicebus.CodeConnectionLost, &amqp.ConnError{}), sbus.ClassConnectionLost, true},
		"connection forced":       {sdkError(t, azservicebus.CodeConnectionLost, condition(amqp.ErrCondConnectionForced)), sbus.ClassConnectionLost, true},
		"internal error":          {sdkError(t, azservicebus.CodeConnectionLost, condition(amqp.ErrCondInternalError)), sbus.ClassTransient, false},
		"wrapped":                 {fmt.Errorf("send: %w", sdkError(t, azservicebus.CodeConnectionLost, io.EOF)), sbus.ClassConnectionLost, true},
		"link":                    {&amqp.LinkError{}, sbus.ClassConnectionLost, true},
		"amqp session":            {&amqp.SessionError{}, sbus.ClassConnectionLost, true},
		"link, forced":            {&amqp.LinkError{RemoteErr: condition(amqp.ErrCondDetachForced)}, sbus.ClassConnectionLost, true},
		"network":                 {&net.OpError{Op: "read", Err: errors.New("reset")}, sbus.ClassConnectionLost, true},
		"end of stream":           {io.EOF, sbus.ClassConnectionLost, true},
		"new SDK code":            {&azservicebus.Error{Code: "new"}, sbus.ClassTransient, true},
		"management 400":          {rpcError{400}, sbus.ClassRefused, false},
		"management 401":          {rpcError{401}, sbus.ClassFatal, false},
		"management 410":          {sdkError(t, azservicebus.CodeLockLost, rpcError{410}), sbus.ClassLockLost, false},
		"management 410 raw":      {rpcError{410}, sbus.ClassLockLost, false},
		"management 503":          {fmt.Errorf("renew: %w", rpcError{503}), sbus.ClassBusy, false},
		"management 500":          {rpcError{500}, sbus.ClassTransient, false},
		"management 408":          {rpcError{408}, sbus.ClassTimeout, false},
		"management 429":          {sdkError(t, azservicebus.CodeConnectionLost, rpcError{429}), sbus.ClassBusy, true},
		"management, no code": {
			sdkError(t, azservicebus.CodeConnectionLost, errors.New("rpc: failed, status code ? and description: x")), sbus.ClassConnectionLost, true,
		},
		"wrong secret":        {identityError(401), sbus.ClassFatal, false},
		"identity is down":    {identityError(503), sbus.ClassTransient, false},
		"identity, no answer": {identityError(0), sbus.ClassTransient, false},
	} {
		if got := sbus.Classify(c.err); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
		if got := sbus.Broken(c.err); got != c.broken {
			t.Errorf("%s: broken %t", name, got)
		}
	}
}

func TestClassNames(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for c := sbus.ClassNone; c <= sbus.ClassStopped; c++ {
		if name := c.String(); name == "" || seen[name] {
			t.Errorf("class %d is %q", c, name)
		} else {
			seen[name] = true
		}
	}
}
