package sbemu_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/integration/sbemu"
)

func TestForwarding(t *testing.T) {
	cfg := sbemu.Config{
		Topics: []sbemu.Topic{{Name: "events", Subscriptions: []sbemu.Subscription{{Name: "all", ForwardTo: "q"}}}},
		Queues: []sbemu.Queue{
			{Name: "q", ForwardDeadLettersTo: "graveyard"},
			{Name: "graveyard"},
			{Name: "round", ForwardTo: "about"},
			{Name: "about", ForwardTo: "round"},
			{Name: "lost", ForwardTo: "nowhere"},
		},
	}

	virtual(t, cfg, func(e *env) {
		t := e.t
		c := e.client()
		e.send(e.sender(c, "events"), "", "1", "2", "3")

		r := e.queueReceiver(c, nil)
		msgs := e.receive(r, 3)
		equal(t, "order", fmt.Sprint(ids(msgs)), "[1 2 3]")

		must(t, r.DeadLetterMessage(e.ctx, msgs[0], &azservicebus.DeadLetterOptions{Reason: pointer("why")}))

		grave, err := c.NewReceiverForQueue("graveyard", nil)
		must(t, err)

		dead := e.receive(grave, 1)[0]
		equal(t, "dead letter source", *dead.DeadLetterSource, "q")
		equal(t, "reason", *dead.DeadLetterReason, "why")

		// Messages that are forwarded too often, or to a missing entity, are not lost.
		e.send(e.sender(c, "round"), "", "dizzy")
		e.send(e.sender(c, "lost"), "", "lonely")
		synctest.Wait()

		transferred := 0

		for _, q := range []string{"round", "about", "lost"} {
			counts, err := e.Counts(q)
			must(t, err)

			transferred += counts.TransferDeadLettered
		}

		equal(t, "transfer dead letters", transferred, 2)

		forwards, err := e.client().NewReceiverForQueue("round", nil)
		must(t, err)
		_, err = forwards.ReceiveMessages(e.ctx, 1, nil)
		condition(t, err, "amqp:not-allowed")
	})
}

// TestForwardingHops: a message is forwarded 4 times, but not a fifth time.
func TestForwardingHops(t *testing.T) {
	cfg := sbemu.Config{Queues: []sbemu.Queue{{Name: "hop5"}}}
	for i := range 5 {
		cfg.Queues = append(cfg.Queues, sbemu.Queue{Name: fmt.Sprint("hop", i), ForwardTo: fmt.Sprint("hop", i+1)})
	}

	virtual(t, cfg, func(e *env) {
		t := e.t
		c := e.client()
		e.send(e.sender(c, "hop1"), "", "arrives")
		e.send(e.sender(c, "hop0"), "", "stays")

		r, err := c.NewReceiverForQueue("hop5", nil)
		must(t, err)
		equal(t, "arrived", e.receive(r, 1)[0].MessageID, "arrives")
		e.empty(r)

		transfer, err := c.NewReceiverForQueue("hop4", &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueTransfer})
		must(t, err)

		left := e.receive(transfer, 1)[0]
		equal(t, "left", left.MessageID, "stays")
		equal(t, "reason", *left.DeadLetterReason, "MaxTransferHopCountExceeded")
	})
}
