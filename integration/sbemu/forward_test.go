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

		// What is forwarded too often, or to nobody, is not lost.
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
