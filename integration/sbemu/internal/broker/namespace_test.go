package broker_test

import (
	"testing"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/message"
)

// TestDeletedDestinationsRefuseMessages: a sender that still has a reference to a deleted
// destination gets an error. Its messages are not accepted and then lost.
func TestDeletedDestinationsRefuseMessages(t *testing.T) {
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
