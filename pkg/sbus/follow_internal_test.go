package sbus

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// The key of a connection string can change, and nothing else: checkpoint and read models
// belong to one namespace.
func TestOnlyTheKeyOfAConnectionStringChanges(t *testing.T) {
	t.Parallel()
	const at = "Endpoint=sb://orders.servicebus.windows.net/;SharedAccessKeyName=n;SharedAccessKey="
	n, err := Open(Config{ConnectionString: at + "one", Topic: "events"})
	if err != nil {
		t.Fatal(err)
	}
	token := func() string {
		token, err := n.Token(t.Context(), "amqps://orders.servicebus.windows.net/events")
		if err != nil {
			t.Fatal(err)
		}
		return token.Value
	}
	changed, first := n.Changed(), token()
	accepts := func(context.Context, *Namespace) error { return nil }
	refuses := func(_ context.Context, n *Namespace) error {
		if connectionString, _ := n.signer.get(); !strings.HasSuffix(connectionString, "=two") {
			t.Errorf("the key of %s is tried", connectionString)
		}
		return errors.New("InvalidSignature")
	}
	if err := n.adopt(t.Context(), at+"two", refuses); err == nil || !strings.Contains(err.Error(), "InvalidSignature") {
		t.Errorf("a key that the namespace refuses: got %v", err)
	}
	for _, wrong := range []string{"nonsense", strings.Replace(at, "orders", "others", 1) + "two", at + "two;EntityPath=other", at + "two;UseDevelopmentEmulator=true"} {
		if err := n.adopt(t.Context(), wrong, accepts); err == nil || strings.Contains(err.Error(), "two") {
			t.Errorf("%s: got %v", wrong, err)
		}
	}
	select {
	case <-changed:
		t.Error("a wrong connection string is in use")
	default:
	}
	if err := n.adopt(t.Context(), at+"two", accepts); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	default:
		t.Error("nobody is told of the change")
	}
	if token() == first {
		t.Error("a new token is signed with the old key")
	}
	select {
	case <-n.Changed():
		t.Error("the key has changed once, and is said to change again")
	default:
	}
}
