package sbemu_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/integration/sbemu"
)

func TestThrottle(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t

		c := e.client()
		s := e.sender(c, "events")
		e.send(s, "a", "1")
		r := e.accept(c, "a")

		e.Throttle(5 * time.Second)

		err := s.SendMessage(e.ctx, message("2", "a"), nil)
		condition(t, err, "com.microsoft:server-busy")

		if !strings.Contains(err.Error(), "50009") {
			t.Fatal(err)
		}

		if err := r.RenewSessionLock(e.ctx, nil); err == nil || !strings.Contains(err.Error(), "503") {
			t.Fatalf("management request: %v", err)
		}

		_, err = c.AcceptSessionForSubscription(e.ctx, "events", "projector", "b", nil)
		condition(t, err, "com.microsoft:server-busy")

		wait(5 * time.Second)
		e.send(s, "a", "2")
		equal(t, "order", fmt.Sprint(ids(e.receive(r, 2))), "[1 2]")
	})
}

func TestRefuseSends(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t

		s := e.sender(e.client(), "events")
		e.RefuseSends("other", 1, "amqp:internal-error")
		e.RefuseSends("events", 2, "amqp:resource-limit-exceeded")

		condition(t, s.SendMessage(e.ctx, message("1", "a"), nil), "amqp:resource-limit-exceeded")
		condition(t, s.SendMessage(e.ctx, message("1", "a"), nil), "amqp:resource-limit-exceeded")
		e.send(s, "a", "1")
	})
}

// TestLoseMessages checks that a lost message is acknowledged, is detected as a duplicate
// when it is sent again, and reaches no receiver, not even one that waits.
func TestLoseMessages(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t

		s := e.sender(e.client(), "events")
		must(t, e.LoseMessages("events", func(id string) bool { return id == "2" }))

		if err := e.LoseMessages("none", nil); !errors.Is(err, sbemu.ErrNotFound) {
			t.Fatal(err)
		}

		e.send(s, "a", "1")
		r := e.accept(e.client(), "a")
		e.receive(r, 1)
		e.send(s, "a", "2", "3", "2")
		equal(t, "received", fmt.Sprint(ids(e.receive(r, 1))), "[3]")

		totals, err := e.Totals("events")
		must(t, err)
		equal(t, "totals", totals, sbemu.Totals{Accepted: 3, Duplicates: 1})

		e.ClearFaults()
		must(t, e.LoseSessionLock(queue, "a"))
		counts, err := e.Counts(queue)
		must(t, err)
		equal(t, "counts", counts, sbemu.Counts{Active: 2})
	})
}

// TestExpireMessages checks that a message that expires immediately reaches no receiver,
// not even one that waits, and is dead-lettered if that is configured.
func TestExpireMessages(t *testing.T) {
	for _, deadLetters := range []bool{true, false} {
		t.Run(fmt.Sprintf("dead-letters %t", deadLetters), func(t *testing.T) {
			cfg := sbemu.Default()
			cfg.Topics[0].Subscriptions[0].DeadLetterExpired = deadLetters

			virtual(t, cfg, func(e *env) {
				t := e.t

				s := e.sender(e.client(), "events")
				must(t, e.ExpireMessages("events", func(id string) bool { return id == "2" }))
				e.send(s, "a", "1")
				r := e.accept(e.client(), "a")
				e.receive(r, 1)
				e.send(s, "a", "2", "3")
				equal(t, "received", fmt.Sprint(ids(e.receive(r, 1))), "[3]")

				want := sbemu.Counts{Active: 2, Locked: 2}
				if deadLetters {
					want.DeadLettered = 1
				}

				counts, err := e.Counts(queue)
				must(t, err)
				equal(t, "counts", counts, want)

				if !deadLetters {
					return
				}

				dead, err := e.Messages(queue+"/$DeadLetterQueue", 0, 10)
				must(t, err)
				equal(t, "reason", dead[0].ApplicationProperties["DeadLetterReason"], any("TTLExpiredException"))

				e.ClearFaults()
				e.send(s, "a", "4")
				equal(t, "received", fmt.Sprint(ids(e.receive(r, 1))), "[4]")
			})
		})
	}
}

func TestRefuseMessages(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t

		s := e.sender(e.client(), "events")
		e.RefuseMessages(func(id string) bool { return id == "2" }, "amqp:not-allowed")

		for range 3 {
			condition(t, s.SendMessage(e.ctx, message("2", "a"), nil), "amqp:not-allowed")
		}

		batch, err := s.NewMessageBatch(e.ctx, nil)
		must(t, err)
		must(t, batch.AddMessage(message("1", "a"), nil))
		must(t, batch.AddMessage(message("2", "a"), nil))
		condition(t, s.SendMessageBatch(e.ctx, batch, nil), "amqp:not-allowed")
		e.send(s, "a", "1", "3")
		e.ClearFaults()
		e.send(s, "a", "2")
	})
}

func TestRefuseLinks(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t

		s := e.sender(e.client(), "events")
		e.RefuseLinks(time.Minute, "amqp:not-found")
		must(t, e.DetachLinks("events", "amqp:not-found"))
		condition(t, s.SendMessage(e.ctx, message("1", "a"), nil), "amqp:not-found")
		condition(t, e.sender(e.client(), "events").SendMessage(e.ctx, message("1", "a"), nil), "amqp:not-found")
		<-time.After(time.Minute)
		e.send(e.sender(e.client(), "events"), "a", "1")
	})
}

func TestDetachLinks(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t

		c := e.client()
		s := e.sender(c, "events")
		e.send(s, "a", "1")

		r := e.acceptNext(c)
		e.receive(r, 1)

		must(t, e.DetachLinks("events", "amqp:link:detach-forced"))
		must(t, e.DetachLinks(queue, "amqp:link:detach-forced"))

		if err := e.DetachLinks("nothing", "x"); !errors.Is(err, sbemu.ErrNotFound) {
			t.Fatal(err)
		}

		e.send(s, "a", "2") // the SDK attaches again immediately
		equal(t, "order", fmt.Sprint(ids(e.receive(e.acceptNext(e.client()), 2))), "[1 2]")
	})
}

// TestDroppedConnectionIsNotDroppedAgain: a dropped connection is neither listed nor
// dropped again, even before the server has handled its end.
func TestDroppedConnectionIsNotDroppedAgain(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t

		e.send(e.sender(e.client(), "events"), "a", "1")
		equal(t, "dropped", e.DropConnections(nil), 1)
		equal(t, "listed", len(e.Connections()), 0)
		equal(t, "dropped again", e.DropConnections(nil), 0)
	})
}

func TestLatency(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t

		s := e.sender(e.client(), "events")
		e.send(s, "a", "0")

		roundTrip := func() time.Duration {
			start := time.Now()
			e.send(s, "a", start.String())

			return time.Since(start)
		}

		equal(t, "round trip", roundTrip(), 0)
		e.SetLatency(20*time.Millisecond, 10*time.Millisecond)
		equal(t, "round trip with latency", roundTrip(), 30*time.Millisecond)

		// Frames on their way keep their order when the latency ends.
		done := make(chan error)
		go func() { done <- s.SendMessage(e.ctx, message("slow", "b"), nil) }()

		wait(5 * time.Millisecond)
		e.ClearFaults()
		e.send(s, "b", "fast")
		must(t, <-done)
		equal(t, "order", fmt.Sprint(ids(e.receive(e.accept(e.client(), "b"), 2))), "[slow fast]")
		equal(t, "round trip without latency", roundTrip(), 0)
	})
}

func TestRights(t *testing.T) {
	cfg := sbemu.Default()
	cfg.Policies = []sbemu.Policy{
		{Name: "all", Key: "k0", Manage: true},
		{Name: "listen", Key: "k1", Listen: true},
		{Name: "send", Key: "k2", Send: true},
	}

	virtual(t, cfg, func(e *env) {
		t := e.t

		send := func(p sbemu.Policy) error {
			return e.sender(e.clientFor(e.ConnectionStringFor(p)), "events").SendMessage(e.ctx, message("1", "a"), nil)
		}
		listen := func(p sbemu.Policy) error {
			_, err := e.clientFor(e.ConnectionStringFor(p)).AcceptSessionForSubscription(e.ctx, "events", "projector", "a", nil)

			return err
		}

		must(t, send(cfg.Policies[0]))
		must(t, send(cfg.Policies[2]))
		must(t, listen(cfg.Policies[1]))

		for err, words := range map[error]string{
			send(cfg.Policies[1]):                             "Unauthorized access. 'Send' claim(s) are required to perform this operation",
			listen(cfg.Policies[2]):                           "Unauthorized access. 'Listen' claim(s) are required to perform this operation",
			send(sbemu.Policy{Name: "all", Key: "wrong"}):     "InvalidSignature",
			send(sbemu.Policy{Name: "unknown", Key: "wrong"}): "InvalidSignature",
		} {
			code(t, err, azservicebus.CodeUnauthorizedAccess)

			if !strings.Contains(err.Error(), words) {
				t.Errorf("error is %v, want %q", err, words)
			}
		}
	})
}

func TestUnknownEntities(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t

		code(t, e.sender(e.client(), "nothing").SendMessage(e.ctx, message("1", "a"), nil), azservicebus.CodeNotFound)

		_, err := e.client().AcceptNextSessionForSubscription(e.ctx, "events", "nothing", nil)
		code(t, err, azservicebus.CodeNotFound)

		// Names are not case-sensitive.
		must(t, e.sender(e.client(), "EVENTS").SendMessage(e.ctx, message("1", "a"), nil))
	})
}

func TestDisabled(t *testing.T) {
	cfg := sbemu.Default()
	cfg.Topics[0].Disabled = true
	cfg.Topics[0].Subscriptions[0].Disabled = true

	virtual(t, cfg, func(e *env) {
		t := e.t

		condition(t, e.sender(e.client(), "events").SendMessage(e.ctx, message("1", "a"), nil), "com.microsoft:entity-disabled")

		_, err := e.client().AcceptSessionForSubscription(e.ctx, "events", "projector", "a", nil)
		condition(t, err, "com.microsoft:entity-disabled")
	})
}
