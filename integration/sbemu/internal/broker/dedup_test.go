package broker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
	"github.com/penstock-cdc/penstock/integration/sbemu/internal/message"
)

// TestDuplicateDetectionWindow: an id is remembered for exactly one window after it was
// first seen. A changed window applies at once.
func TestDuplicateDetectionWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ns := broker.NewNamespace()
		defer ns.Close()

		in := broker.IntakeConfig{DuplicateDetectionWindow: 10 * time.Minute}
		if err := ns.CreateTopic(broker.TopicConfig{Name: "t", IntakeConfig: in}); err != nil {
			t.Fatal(err)
		}

		topic := ns.Destination("t")
		send := func(id string, wantAccepted, wantDuplicates int64) {
			t.Helper()

			if err := topic.Send([]*message.Message{encode(t, id, "a")}); err != nil {
				t.Fatal(err)
			}

			if accepted, duplicates := topic.Totals(); accepted != wantAccepted || duplicates != wantDuplicates {
				t.Fatalf("accepted %d and %d duplicates, want %d and %d", accepted, duplicates, wantAccepted, wantDuplicates)
			}
		}

		send("1", 1, 0)
		<-time.After(10*time.Minute - 1)
		send("1", 1, 1)
		<-time.After(1) // a duplicate does not extend the window
		send("1", 2, 1)

		in.DuplicateDetectionWindow = 20 * time.Second
		topic.Update(in, broker.QueueConfig{})
		send("2", 3, 1)
		<-time.After(20*time.Second - 1)
		send("1", 3, 2)
		send("2", 3, 3)
		<-time.After(1)
		send("1", 4, 3)
		send("2", 5, 3)
	})
}
