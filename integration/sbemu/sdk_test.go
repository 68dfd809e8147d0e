package sbemu_test

import (
	"context"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/integration/sbemu"
)

func TestSmoke(t *testing.T) {
	srv, err := sbemu.New(sbemu.Default())
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Start(); err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	client, err := azservicebus.NewClientFromConnectionString(srv.ConnectionString(), &azservicebus.ClientOptions{RetryOptions: azservicebus.RetryOptions{MaxRetries: -1}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(ctx)
	s, err := client.NewSender("events", nil)
	if err != nil {
		t.Fatal(err)
	}
	id := "a"
	for i := range 3 {
		mid := string(rune('0' + i))
		if err := s.SendMessage(ctx, &azservicebus.Message{Body: []byte("x"), SessionID: &id, MessageID: &mid}, nil); err != nil {
			t.Fatal(err)
		}
	}
	r, err := client.AcceptNextSessionForSubscription(ctx, "events", "projector", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r.SessionID(), r.LockedUntil())
	n := 0
	for n < 3 {
		msgs, err := r.ReceiveMessages(ctx, 10, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range msgs {
			t.Log(m.MessageID, *m.SequenceNumber, m.DeliveryCount)
			if err := r.CompleteMessage(ctx, m, nil); err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	if err := r.RenewSessionLock(ctx, nil); err != nil {
		t.Fatal(err)
	}
	t.Log(r.LockedUntil())
	if err := r.Close(ctx); err != nil {
		t.Fatal(err)
	}
}
