package contract_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"github.com/penstock-cdc/penstock/integration/sbemu"
	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/pkg/sbus/sessions"
	"github.com/penstock-cdc/penstock/pkg/secret"
)

// Promises of package sessions that the SDK's receiver does not make.

// TestSessionsNeedOneRoundTripForEachStep: an accept is one round trip, and so are the
// first messages, each settlement and the release.
func TestSessionsNeedOneRoundTripForEachStep(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t
		s := e.sender(e.client(), "events")
		e.send(s, "a", "a1", "a2")
		e.send(s, "b", "b1", "b2")

		const way = 50 * time.Millisecond

		c := e.connection()
		warm, err := c.Accept(e.ctx, time.Second)
		must(t, err)
		must(t, warm.Close(e.ctx))
		e.SetLatency(way, way)

		cost := func(what string, step func()) {
			t.Helper()

			start := time.Now()
			step()
			equal(t, "round trips to "+what, float64(time.Since(start))/float64(2*way), 1)
		}

		for range 2 {
			var (
				r        *sessions.Session
				received []*azservicebus.ReceivedMessage
			)

			cost("accept", func() { r, err = c.Accept(e.ctx, time.Second) })
			must(t, err)
			cost("receive", func() {
				for len(received) < 2 && err == nil {
					var got []*azservicebus.ReceivedMessage
					got, err = r.ReceiveMessages(e.ctx, 10, nil)
					received = append(received, got...)
				}
			})
			must(t, err)
			cost("settle", func() {
				var settled sync.WaitGroup
				for _, m := range received {
					settled.Go(func() {
						if err := r.CompleteMessage(e.ctx, m, nil); err != nil {
							t.Error(err)
						}
					})
				}

				settled.Wait()
			})
			cost("release", func() { err = r.Close(e.ctx) })
			must(t, err)
		}
	})
}

// TestSessionsKeepMessagesThatArriveBetweenCalls: with leftover credit, messages arrive
// between two calls. They stay in order and count no delivery. See TestLeftoverCredit.
func TestSessionsKeepMessagesThatArriveBetweenCalls(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t
		s := e.sender(e.client(), "events")
		e.send(s, "a", "1")

		r, err := e.connection().Accept(e.ctx, time.Second)
		must(t, err)

		var order []string

		for round := range 20 {
			got, err := r.ReceiveMessages(e.ctx, 5, nil)
			must(t, err)

			order = append(order, ids(got)...)
			for _, m := range got {
				equal(t, "delivery count", m.DeliveryCount, 1)
				must(t, r.CompleteMessage(e.ctx, m, nil))
			}

			e.send(s, "a", fmt.Sprint(2*round+2), fmt.Sprint(2*round+3))
			wait(time.Second)
		}

		for i, id := range order {
			equal(t, "message", id, fmt.Sprint(i+1))
		}

		equal(t, "more than one was received at a time", len(order) > 20, true)
	})
}

// TestSessionsReportARefusedSettlement: with the SDK, the second attempt would succeed.
func TestSessionsReportARefusedSettlement(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t
		e.send(e.sender(e.client(), "events"), "a", "1")
		r, err := e.connection().Accept(e.ctx, time.Second)
		must(t, err)

		m := e.take(r, 1)[0]
		must(t, r.CompleteMessage(e.ctx, m, nil))

		if err := r.CompleteMessage(e.ctx, m, nil); !errors.Is(err, sessions.ErrSettled) || sbus.Classify(err) != sbus.ClassRefused {
			t.Fatalf("settled again: %v", err)
		}
	})
}

// TestDrainRevokesCredit: go-amqp drains with a flow of no credit, and the service answers
// it (go-amqp #90; azure-amqp #219 confirms it for Service Bus).
func TestDrainRevokesCredit(t *testing.T) {
	virtual(t, sbemu.Config{Queues: []sbemu.Queue{{Name: "q"}}}, func(e *env) {
		t := e.t
		raw, err := e.dial(e.ctx)
		must(t, err)

		conn, err := amqp.NewConn(e.ctx, raw, &amqp.ConnOptions{SASLType: amqp.SASLTypeAnonymous(), HostName: "sbemu"})
		must(t, err)

		defer conn.Close()

		namespace, err := sbus.Open(sbus.Config{ConnectionString: secret.Text(e.ConnectionString())})
		must(t, err)

		token, err := namespace.Token(e.ctx, "amqp://sbemu/q")
		must(t, err)

		channel, err := conn.NewSession(e.ctx, nil)
		must(t, err)

		replies, err := channel.NewReceiver(e.ctx, "$cbs", &amqp.ReceiverOptions{TargetAddress: "here"})
		must(t, err)

		requests, err := channel.NewSender(e.ctx, "$cbs", nil)
		must(t, err)
		must(t, requests.Send(e.ctx, &amqp.Message{
			Properties:            &amqp.MessageProperties{MessageID: "1", ReplyTo: pointer("here")},
			ApplicationProperties: map[string]any{"operation": "put-token", "type": token.Type, "name": "amqp://sbemu/q"},
			Value:                 token.Value,
		}, nil))

		_, err = replies.Receive(e.ctx, nil)
		must(t, err)

		r, err := channel.NewReceiver(e.ctx, "q", &amqp.ReceiverOptions{Credit: -1, SettlementMode: amqp.ReceiverSettleModeSecond.Ptr()})
		must(t, err)
		must(t, r.IssueCredit(10))
		wait(time.Second)

		ctx, cancel := context.WithTimeout(e.ctx, time.Second)
		defer cancel()

		must(t, r.DrainCredit(ctx, nil))
		e.send(e.sender(e.client(), "q"), "", "late")
		wait(time.Second)

		if m := r.Prefetched(); m != nil {
			t.Fatalf("received %v without credit", m.Properties.MessageID)
		}
	})
}
