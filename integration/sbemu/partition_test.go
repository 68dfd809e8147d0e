package sbemu_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/integration/sbemu"
)

func TestPartitionedBatches(t *testing.T) {
	cfg := sbemu.Config{Topics: []sbemu.Topic{
		{Name: "spread", Partitioned: true, Subscriptions: []sbemu.Subscription{{Name: "s", RequiresSession: true}}},
		{Name: "dedup", Partitioned: true, DuplicateDetectionWindow: time.Minute, Subscriptions: []sbemu.Subscription{{Name: "s", RequiresSession: true}}},
	}}

	virtual(t, cfg, func(e *env) {
		t := e.t

		refused := func(err error, words string) {
			t.Helper()
			condition(t, err, "amqp:not-allowed")

			if !strings.Contains(err.Error(), words) {
				t.Fatal(err)
			}
		}

		refused(e.batch(e.sender(e.client(), "spread"), "1", "a", "2", "b"), "distinct SessionId or PartitionKey")
		refused(e.batch(e.sender(e.client(), "spread"), "1", "", "2", ""), "distinct SessionId or PartitionKey")
		must(t, e.batch(e.sender(e.client(), "spread"), "1", "a", "2", "a"))

		refused(e.batch(e.sender(e.client(), "dedup"), "1", "a", "2", "a"), "distinct SessionId, PartitionKey, or MessageId")
		must(t, e.batch(e.sender(e.client(), "dedup"), "1", "a"))

		// With another partition key, the same id is another message.
		s := e.sender(e.client(), "dedup")
		e.send(s, "b", "1")
		e.send(s, "a", "1")

		totals, err := e.Totals("dedup")
		must(t, err)
		equal(t, "totals", totals, sbemu.Totals{Accepted: 2, Duplicates: 1})

		condition(t, s.SendMessage(e.ctx, &azservicebus.Message{}, nil), "amqp:not-allowed")
	})
}

func TestPartitionedOrderAndSequenceNumbers(t *testing.T) {
	cfg := sbemu.Config{Topics: []sbemu.Topic{
		{Name: "events", Partitioned: true, Subscriptions: []sbemu.Subscription{{Name: "projector", RequiresSession: true}}},
	}}

	virtual(t, cfg, func(e *env) {
		t := e.t

		c := e.client()
		s := e.sender(c, "events")
		partitions := make(map[int64]bool)

		for i := range 30 {
			e.send(s, fmt.Sprint("s", i), "1", "2", "3")
		}

		for i := range 30 {
			msgs := e.receive(e.accept(c, fmt.Sprint("s", i)), 3)
			equal(t, "order", fmt.Sprint(ids(msgs)), "[1 2 3]")

			for _, m := range msgs {
				equal(t, "partition", *m.SequenceNumber>>48, *msgs[0].SequenceNumber>>48)
			}

			partitions[*msgs[0].SequenceNumber>>48] = true
		}

		if len(partitions) < 8 {
			t.Fatalf("30 sessions are in %d of 16 partitions", len(partitions))
		}
	})
}

// TestPartitionedSessionsWithDuplicateDetection combines all three, for a publisher that
// was disconnected and sends again.
func TestPartitionedSessionsWithDuplicateDetection(t *testing.T) {
	cfg := sbemu.Config{Topics: []sbemu.Topic{{
		Name: "events", Partitioned: true, DuplicateDetectionWindow: time.Minute,
		Subscriptions: []sbemu.Subscription{{Name: "projector", RequiresSession: true}},
	}}}

	virtual(t, cfg, func(e *env) {
		t := e.t

		const sessions = 12

		for _, last := range []int{3, 5} { // the second time again from the beginning, and further
			c := e.client()
			s := e.sender(c, "events")

			for i := range sessions {
				for n := 1; n <= last; n++ {
					m := message(fmt.Sprintf("s%d/%d", i, n), fmt.Sprint("s", i))
					m.PartitionKey = m.SessionID
					must(t, s.SendMessage(e.ctx, m, nil))
				}
			}

			equal(t, "dropped connections", e.DropConnections(nil), 1)
		}

		totals, err := e.Totals("events")
		must(t, err)
		equal(t, "totals", totals, sbemu.Totals{Accepted: sessions * 5, Duplicates: sessions * 3})

		c := e.client()
		for range sessions {
			r := e.acceptNext(c)
			id := r.SessionID()

			for n, m := range e.receive(r, 5) {
				equal(t, "order", m.MessageID, fmt.Sprintf("%s/%d", id, n+1))
				must(t, r.CompleteMessage(e.ctx, m, nil))
			}

			e.empty(r)
		}
	})
}
