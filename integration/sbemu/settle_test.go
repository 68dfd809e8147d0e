package sbemu_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/integration/sbemu"
)

func pointer[T any](v T) *T { return &v }

// plainQueue declares a queue "q" without sessions.
func plainQueue() sbemu.Config {
	return sbemu.Config{Queues: []sbemu.Queue{{Name: "q", LockDuration: 30 * time.Second, MaxDeliveryCount: 3}}}
}

func (e *env) queueReceiver(c *azservicebus.Client, o *azservicebus.ReceiverOptions) *azservicebus.Receiver {
	e.t.Helper()

	r, err := c.NewReceiverForQueue("q", o)
	must(e.t, err)

	return r
}

func (e *env) deadLetters(c *azservicebus.Client) *azservicebus.Receiver {
	return e.queueReceiver(c, &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter})
}

// TestLeftoverCredit shows a hazard of the SDK. With leftover credit, it receives messages
// in the background and releases them. That counts no delivery, and the messages come again
// in order.
func TestLeftoverCredit(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t

		c := e.client()
		s := e.sender(c, "events")
		e.send(s, "a", "1")

		r := e.acceptNext(c)

		got, err := r.ReceiveMessages(e.ctx, 5, nil)
		must(t, err)
		equal(t, "received", fmt.Sprint(ids(got)), "[1]")

		e.send(s, "a", "2", "3")
		wait(time.Second)

		msgs := e.receive(r, 2)
		equal(t, "order", fmt.Sprint(ids(msgs)), "[2 3]")
		equal(t, "delivery count", msgs[0].DeliveryCount, 1)
	})
}

func TestMaxDeliveryCount(t *testing.T) {
	virtual(t, plainQueue(), func(e *env) {
		t := e.t

		c := e.client()
		e.send(e.sender(c, "q"), "", "1")

		r := e.queueReceiver(c, nil)

		for i := range 3 {
			m := e.receive(r, 1)[0]
			equal(t, "delivery count", m.DeliveryCount, uint32(i+1))
			must(t, r.AbandonMessage(e.ctx, m, nil))
		}

		e.empty(r)

		dead := e.deadLetters(c)
		m := e.receive(dead, 1)[0]
		equal(t, "reason", *m.DeadLetterReason, "MaxDeliveryCountExceeded")

		// A dead-letter queue does not count deliveries.
		must(t, dead.AbandonMessage(e.ctx, m, nil))
		equal(t, "delivery count", e.receive(dead, 1)[0].DeliveryCount, m.DeliveryCount)

		counts, err := e.Counts("q")
		must(t, err)
		equal(t, "dead letters", counts.DeadLettered, 1)
	})
}

// TestSettlementCanEnlargeAMessage: the properties that a settlement adds may make a message
// larger than a frame.
func TestSettlementCanEnlargeAMessage(t *testing.T) {
	virtual(t, plainQueue(), func(e *env) {
		t := e.t
		c := e.client()
		large := message("1", "")
		large.Body = make([]byte, 60<<10)
		must(t, e.sender(c, "q").SendMessage(e.ctx, large, nil))

		r := e.queueReceiver(c, nil)
		must(t, r.DeadLetterMessage(e.ctx, e.receive(r, 1)[0], &azservicebus.DeadLetterOptions{
			ErrorDescription: pointer(strings.Repeat("why ", 10_000)),
		}))

		dead := e.receive(e.deadLetters(c), 1)[0]
		equal(t, "body", len(dead.Body), 60<<10)
		equal(t, "description", len(*dead.DeadLetterErrorDescription), 40_000)
	})
}

// TestLocksOutliveTheirReceiver: without sessions, the messages of a closed receiver stay
// locked, and can be settled by their lock token.
func TestLocksOutliveTheirReceiver(t *testing.T) {
	virtual(t, plainQueue(), func(e *env) {
		t := e.t

		c := e.client()
		e.send(e.sender(c, "q"), "", "1", "2", "3", "4")

		first := e.queueReceiver(c, nil)
		msgs := e.receive(first, 4)
		must(t, first.Close(e.ctx))

		second := e.queueReceiver(c, nil)
		e.empty(second)

		token := func(i int) *azservicebus.ReceivedMessage {
			return &azservicebus.ReceivedMessage{LockToken: msgs[i].LockToken}
		}

		must(t, second.RenewMessageLock(e.ctx, token(0), nil))
		must(t, second.CompleteMessage(e.ctx, token(0), nil))
		must(t, second.DeadLetterMessage(e.ctx, token(1), &azservicebus.DeadLetterOptions{Reason: pointer("r")}))
		must(t, second.DeferMessage(e.ctx, token(2), nil))
		must(t, second.AbandonMessage(e.ctx, token(3), nil))

		equal(t, "abandoned", e.receive(second, 1)[0].DeliveryCount, 2)
		equal(t, "dead letter", *e.receive(e.deadLetters(c), 1)[0].DeadLetterReason, "r")

		deferred, err := second.ReceiveDeferredMessages(e.ctx, []int64{*msgs[2].SequenceNumber}, nil)
		must(t, err)
		equal(t, "deferred", deferred[0].MessageID, "3")
	})
}

// TestDroppedConnectionWithoutSessions: messages that a lost connection leaves unsettled go
// to another receiver when their lock ends, and count a delivery.
func TestDroppedConnectionWithoutSessions(t *testing.T) {
	virtual(t, plainQueue(), func(e *env) {
		t := e.t

		dropped, other := e.client(), e.client()
		e.send(e.sender(other, "q"), "", "1", "2", "3")

		first := e.queueReceiver(dropped, nil)
		msgs := e.receive(first, 2)
		must(t, first.CompleteMessage(e.ctx, msgs[0], nil))
		equal(t, "dropped connections", e.DropConnections(func(c sbemu.Connection) bool { return slices.Contains(c.Receives, "q") }), 1)

		second := e.queueReceiver(other, nil)
		equal(t, "never delivered", e.receive(second, 1)[0].MessageID, "3")
		e.empty(second)
		wait(30 * time.Second)

		again := e.receive(second, 1)[0]
		equal(t, "message", again.MessageID, "2")
		equal(t, "delivery count", again.DeliveryCount, 2)
		must(t, second.CompleteMessage(e.ctx, again, nil))
	})
}

func TestReceiversTakeTurns(t *testing.T) {
	virtual(t, plainQueue(), func(e *env) {
		t := e.t

		c := e.client()
		results := make(chan int)

		for range 2 {
			r := e.queueReceiver(c, nil)

			go func() {
				n := 0

				for {
					ctx, cancel := context.WithTimeout(e.ctx, 5*time.Second)
					got, err := r.ReceiveMessages(ctx, 1, nil)

					cancel()

					if err != nil {
						results <- n

						return
					}

					for _, m := range got {
						_ = r.CompleteMessage(e.ctx, m, nil)
						n++
					}
				}
			}()
		}

		s := e.sender(c, "q")

		for i := range 20 {
			wait(100 * time.Millisecond)
			e.send(s, "", fmt.Sprint(i))
		}

		equal(t, "received by one", <-results, 10)
		equal(t, "received by the other", <-results, 10)
	})
}
