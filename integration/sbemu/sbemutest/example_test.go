package sbemutest_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/integration/sbemu"
	"github.com/penstock-cdc/penstock/integration/sbemu/sbemutest"
)

// TestLockExpires waits for the end of a lock of five minutes, in no time.
func TestLockExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := sbemutest.NewListener()
		namespace := sbemutest.Start(t, sbemu.Config{
			Listener: listener,
			Queues:   []sbemu.Queue{{Name: "orders", LockDuration: 5 * time.Minute}},
		})

		client, err := azservicebus.NewClientFromConnectionString(namespace.ConnectionString(), &azservicebus.ClientOptions{
			NewWebSocketConn: func(ctx context.Context, _ azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
				return listener.Dial(ctx)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close(t.Context())

		sender, err := client.NewSender("orders", nil)
		if err != nil {
			t.Fatal(err)
		}

		if err := sender.SendMessage(t.Context(), &azservicebus.Message{}, nil); err != nil {
			t.Fatal(err)
		}

		receiver, err := client.NewReceiverForQueue("orders", nil)
		if err != nil {
			t.Fatal(err)
		}

		for attempt := range uint32(3) {
			messages, err := receiver.ReceiveMessages(t.Context(), 1, nil)
			if err != nil {
				t.Fatal(err)
			}

			if messages[0].DeliveryCount != attempt+1 {
				t.Errorf("delivery %d has the count %d", attempt+1, messages[0].DeliveryCount)
			}
		}
	})
}
