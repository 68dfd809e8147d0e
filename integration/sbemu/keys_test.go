package sbemu_test

import (
	"context"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/integration/sbemu"
)

// TestKeysAreRegenerated checks that both keys of a policy are valid, that a replaced key
// is refused from then on, and that the other key stays valid.
func TestKeysAreRegenerated(t *testing.T) {
	t.Parallel()
	policy := sbemu.Policy{Name: "both", Key: "first", SecondaryKey: "second", Send: true}
	server, err := sbemu.New(sbemu.Config{Topics: []sbemu.Topic{{Name: "events"}}, Policies: []sbemu.Policy{policy}})
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	send := func(key string) error {
		p := policy
		p.Key = key
		client, err := azservicebus.NewClientFromConnectionString(server.ConnectionStringFor(p), &azservicebus.ClientOptions{RetryOptions: azservicebus.RetryOptions{MaxRetries: -1}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = client.Close(context.WithoutCancel(t.Context())) }()
		sender, err := client.NewSender("events", nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		return sender.SendMessage(ctx, &azservicebus.Message{Body: []byte("x")}, nil)
	}
	for _, key := range []string{"first", "second"} {
		if err := send(key); err != nil {
			t.Errorf("with the key %s: %v", key, err)
		}
	}
	if err := server.RegenerateKey("both", "first", "third"); err != nil {
		t.Fatal(err)
	}
	if server.RegenerateKey("both", "first", "fourth") == nil || server.RegenerateKey("other", "second", "fourth") == nil {
		t.Error("a key that the policy does not have was replaced")
	}
	for key, good := range map[string]bool{"first": false, "second": true, "third": true} {
		if err := send(key); (err == nil) != good {
			t.Errorf("after the first key was replaced, %s gives %v", key, err)
		}
	}
}
