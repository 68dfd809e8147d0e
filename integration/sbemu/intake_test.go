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

func TestDuplicateDetection(t *testing.T) {
	cfg := sbemu.Default()
	cfg.Topics[0].Record = 10

	virtual(t, cfg, func(e *env) {
		t := e.t

		c := e.client()
		s := e.sender(c, "events")

		e.send(s, "a", "1", "2", "1")
		e.send(s, "b", "2") // duplicates are detected by the message id alone
		wait(10*time.Minute + time.Second)
		e.send(s, "a", "1")

		totals, err := e.Totals("events")
		must(t, err)
		equal(t, "totals", totals, sbemu.Totals{Accepted: 3, Duplicates: 2})

		accepted, err := e.Accepted("events")
		must(t, err)

		var got []string
		for _, a := range accepted {
			got = append(got, fmt.Sprintf("%d:%s/%s/%t", a.SequenceNumber, a.SessionID, a.MessageID, a.Duplicate))
		}

		equal(t, "accepted", strings.Join(got, " "), "1:a/1/false 2:a/2/false 0:a/1/true 0:b/2/true 3:a/1/false")
		equal(t, "order", fmt.Sprint(ids(e.receive(e.acceptNext(c), 3))), "[1 2 1]")
	})
}

func TestRecordIsBounded(t *testing.T) {
	cfg := sbemu.Default()
	cfg.Topics[0].Record = 3

	virtual(t, cfg, func(e *env) {
		t := e.t

		s := e.sender(e.client(), "events")

		for i := range 5 {
			m := message(fmt.Sprint(i), "a")
			m.ApplicationProperties = map[string]any{"epoch": int64(i + 40)}
			must(t, s.SendMessage(e.ctx, m, nil))
		}

		accepted, err := e.Accepted("events")
		must(t, err)

		var got []string
		for _, a := range accepted {
			got = append(got, fmt.Sprintf("%d %s", a.Epoch, a.Body))
		}

		equal(t, "epochs and bodies", strings.Join(got, ", "), "42 2, 43 3, 44 4")
	})
}

// batch sends messages as a batch; ids and sessions alternate.
func (e *env) batch(s *azservicebus.Sender, idsAndSessions ...string) error {
	e.t.Helper()

	b, err := s.NewMessageBatch(e.ctx, nil)
	must(e.t, err)

	for i := 0; i < len(idsAndSessions); i += 2 {
		must(e.t, b.AddMessage(message(idsAndSessions[i], idsAndSessions[i+1]), nil))
	}

	return s.SendMessageBatch(e.ctx, b, nil)
}

func TestBatchIsAllOrNothing(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t

		c := e.client()
		err := e.batch(e.sender(c, "events"), "1", "a", strings.Repeat("x", 129), "a")
		condition(t, err, "com.microsoft:argument-error")

		totals, err := e.Totals("events")
		must(t, err)
		equal(t, "totals", totals, sbemu.Totals{})
	})
}

func TestBatchCountIsLimited(t *testing.T) {
	cfg := sbemu.Default()
	cfg.Topics[0].MaxMessageSize = 1 << 20

	virtual(t, cfg, func(e *env) {
		t := e.t

		fill := func(n int) error {
			s := e.sender(e.client(), "events")

			b, err := s.NewMessageBatch(e.ctx, nil)
			must(t, err)

			for i := range n {
				must(t, b.AddMessage(&azservicebus.Message{MessageID: pointer(fmt.Sprint(i)), SessionID: pointer("a")}, nil))
			}

			return s.SendMessageBatch(e.ctx, b, nil)
		}

		condition(t, fill(4501), "amqp:internal-error")
		must(t, fill(4500))
	})
}

func TestSizes(t *testing.T) {
	cfg := sbemu.Default()
	cfg.Topics = append(cfg.Topics, sbemu.Topic{
		Name: "premium", MaxMessageSize: 4 << 20, MaxBatchSize: 64 << 10,
		Subscriptions: []sbemu.Subscription{{Name: "s", RequiresSession: true}},
	})

	virtual(t, cfg, func(e *env) {
		t := e.t

		c := e.client()
		s := e.sender(c, "events")

		large := message("1", "a")
		large.Body = make([]byte, 256<<10)

		if err := s.SendMessage(e.ctx, large, nil); !errors.Is(err, azservicebus.ErrMessageTooLarge) {
			t.Fatal(err)
		}

		large.Body = large.Body[:250<<10]
		must(t, s.SendMessage(e.ctx, large, nil))
		equal(t, "size", len(e.receive(e.acceptNext(c), 1)[0].Body), 250<<10)

		b, err := e.sender(c, "premium").NewMessageBatch(e.ctx, nil)
		must(t, err)

		if err := b.AddMessage(large, nil); !errors.Is(err, azservicebus.ErrMessageTooLarge) {
			t.Fatalf("batch took %d bytes: %v", b.NumBytes(), err)
		}

		large.Body = make([]byte, 3<<20)
		must(t, e.sender(c, "premium").SendMessage(e.ctx, large, nil))
	})
}

func TestMessageIDAndSessionIDAreLimited(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t

		long := strings.Repeat("x", 129)

		for _, m := range []*azservicebus.Message{message(long, "a"), message("1", long)} {
			err := e.sender(e.client(), "events").SendMessage(e.ctx, m, nil)
			condition(t, err, "com.microsoft:argument-error")
		}

		_, err := e.client().AcceptSessionForSubscription(e.ctx, "events", "projector", long, nil)
		condition(t, err, "com.microsoft:argument-error")

		must(t, e.sender(e.client(), "events").SendMessage(e.ctx, message(long[:128], long[:128]), nil))
		equal(t, "session", e.accept(e.client(), long[:128]).SessionID(), long[:128])

		// Ids are limited in characters, not in bytes.
		wide := strings.Repeat("ж", 128)
		must(t, e.sender(e.client(), "events").SendMessage(e.ctx, message(wide, wide), nil))
		condition(t, e.sender(e.client(), "events").SendMessage(e.ctx, message("2", wide+"ж"), nil), "com.microsoft:argument-error")
	})
}

func TestPropertiesAreLimited(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t

		long := func(n int) string { return strings.Repeat("x", n) }

		for name, properties := range map[string]map[string]any{
			"binary":          {"k": []byte("x")},
			"one too long":    {"k": long(33 << 10)},
			"together":        {"k": long(30 << 10), "l": long(30 << 10), "m": long(30 << 10)},
			"by many of them": manyProperties(4_000),
		} {
			m := message(name, "a")
			m.ApplicationProperties = properties

			if err := e.sender(e.client(), "events").SendMessage(e.ctx, m, nil); !errors.Is(err, azservicebus.ErrMessageTooLarge) {
				t.Errorf("%s: %v", name, err)
			}
		}

		m := message("fits", "a")
		m.Body = make([]byte, 100<<10)
		m.ApplicationProperties = map[string]any{"k": long(31 << 10), "l": long(31 << 10)}
		must(t, e.sender(e.client(), "events").SendMessage(e.ctx, m, nil))
	})
}

func manyProperties(n int) map[string]any {
	properties := make(map[string]any, n)
	for i := range n {
		properties[fmt.Sprint("property", i)] = int64(i)
	}

	return properties
}

func TestPartitionKeyMustBeTheSession(t *testing.T) {
	virtual(t, sbemu.Default(), func(e *env) {
		t := e.t

		m := message("1", "a")
		m.PartitionKey = pointer("b")
		condition(t, e.sender(e.client(), "events").SendMessage(e.ctx, m, nil), "amqp:not-allowed")

		m.PartitionKey = pointer("a")
		must(t, e.sender(e.client(), "events").SendMessage(e.ctx, m, nil))
	})
}

func TestSessionlessMessages(t *testing.T) {
	cfg := sbemu.Default()
	cfg.Queues = []sbemu.Queue{{Name: "sessions", RequiresSession: true}}

	virtual(t, cfg, func(e *env) {
		t := e.t

		c := e.client()

		// A subscription with sessions dead-letters a message without one.
		e.send(e.sender(c, "events"), "", "1")

		dead, err := e.Messages(queue+"/$DeadLetterQueue", 0, 10)
		must(t, err)
		equal(t, "dead letters", len(dead), 1)
		equal(t, "reason", dead[0].ApplicationProperties["DeadLetterReason"], any("Session ID is null."))

		// A queue with sessions refuses it.
		condition(t, e.sender(c, "sessions").SendMessage(e.ctx, message("1", ""), nil), "amqp:not-allowed")
	})
}

func TestTimeToLive(t *testing.T) {
	cfg := sbemu.Default()
	cfg.Queues = []sbemu.Queue{{Name: "q", DeadLetterExpired: true, DefaultTTL: time.Hour}}

	virtual(t, cfg, func(e *env) {
		t := e.t

		c := e.client()
		short := message("1", "a")
		short.TimeToLive = pointer(time.Minute)

		must(t, e.sender(c, "events").SendMessage(e.ctx, short, nil))
		e.send(e.sender(c, "events"), "a", "2")
		must(t, e.sender(c, "q").SendMessage(e.ctx, short, nil))
		e.send(e.sender(c, "q"), "", "2")
		wait(61 * time.Second)

		equal(t, "left in the session", e.receive(e.acceptNext(c), 1)[0].MessageID, "2")

		dead := e.receive(e.deadLetters(c), 1)[0]
		equal(t, "reason", *dead.DeadLetterReason, "TTLExpiredException")

		wait(time.Hour)

		counts, err := e.Counts("q")
		must(t, err)
		equal(t, "counts", counts, sbemu.Counts{DeadLettered: 2})
	})
}
