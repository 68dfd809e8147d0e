package sbemu_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/penstock-cdc/penstock/integration/sbemu"
)

// TestEmulatorLimits covers every limit of Microsoft's emulator.
func TestEmulatorLimits(t *testing.T) {
	t.Parallel()
	e := socket(t, sbemu.Config{Limits: sbemu.EmulatorLimits()})

	for what, topic := range map[string]sbemu.Topic{
		"partitioned": {Name: "p", Partitioned: true},
		"window":      {Name: "w", DuplicateDetectionWindow: 5*time.Minute + time.Second},
	} {
		if err := e.CreateTopic(topic); err == nil {
			t.Errorf("%s: created", what)
		}
	}

	for i := range 50 {
		must(t, e.CreateQueue(sbemu.Queue{Name: fmt.Sprint("q", i)}))
	}

	if err := e.CreateTopic(sbemu.Topic{Name: "q50"}); err == nil {
		t.Error("a namespace has 51 entities")
	}

	var clients []*azservicebus.Client

	for i := range 10 {
		clients = append(clients, e.client())
		must(t, e.sender(clients[i], "q0").SendMessage(e.ctx, message(fmt.Sprint(i), ""), nil))
	}

	if err := e.sender(e.client(), "q0").SendMessage(e.ctx, message("10", ""), nil); err == nil {
		t.Error("an eleventh connection sends")
	} else {
		condition(t, err, "amqp:resource-limit-exceeded")
	}

	must(t, clients[0].Close(e.ctx))

	for len(e.Connections()) == 10 {
		wait(time.Millisecond)
	}

	must(t, e.sender(e.client(), "q0").SendMessage(e.ctx, message("11", ""), nil))
}

// TestLimitedTimeToLive shortens times to live that are longer than the limit, and none.
func TestLimitedTimeToLive(t *testing.T) {
	virtual(t, sbemu.Config{
		Limits: sbemu.EmulatorLimits(), Queues: []sbemu.Queue{{Name: "forever"}, {Name: "longer", DefaultTTL: 2 * time.Hour}},
	}, func(e *env) {
		for _, queue := range []string{"forever", "longer"} {
			e.send(e.sender(e.client(), queue), "", "1")
		}

		elapsed := []time.Duration{59 * time.Minute, 2 * time.Minute}

		for after, want := range []int{1, 0} {
			wait(elapsed[after])

			for _, queue := range []string{"forever", "longer"} {
				messages, err := e.Messages(queue, 0, 1)
				must(e.t, err)
				equal(e.t, "messages in "+queue, len(messages), want)
			}
		}
	})
}
