package broker_test

import (
	"testing"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/message"
)

// TestDeletedDestinationsRefuse: who still holds one can no longer send to it,
// rather than have what it sent accepted and lost.
func TestDeletedDestinationsRefuse(t *testing.T) {
	t.Parallel()

	ns := broker.NewNamespace()
	defer ns.Close()

	for _, err := range []error{
		ns.CreateTopic(broker.TopicConfig{Name: "topic"}), ns.CreateQueue(broker.StandaloneConfig{Name: "queue"}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}

	for _, name := range []string{"topic", "queue"} {
		d := ns.Destination(name)
		msgs := []*message.Message{encode(t, "1", nil)}

		if err := d.Send(msgs); err != nil {
			t.Fatal(err)
		}

		if !ns.Delete(name) || ns.Delete(name) {
			t.Fatalf("%s is not deleted once", name)
		}

		refused(t, d.Send(msgs), broker.CondNotFound)

		_, err := d.Schedule(msgs)
		refused(t, err, broker.CondNotFound)
	}
}
