package drain_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/drain"
)

// sized returns the body of an event with a payload of the given number of bytes.
func sized(aggregate string, id int64, size int) []byte {
	return testkit.Raw(bson.D{{Key: "aggregateId", Value: aggregate}, {Key: "eventId", Value: id}, {Key: "eventType", Value: "Happened"}, {Key: "payload", Value: make([]byte, size)}})
}

// One large message in a thousand hardly reduces the credit that sessions grant.
func TestRareLargeMessagesHardlyReduceTheCredit(t *testing.T) {
	t.Parallel()
	const sessions, perSession = 4, 3000
	mean := func(t *testing.T, large int) (mean float64) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			broker := newFakeBroker(2*time.Millisecond, time.Minute)
			want := make(map[string]int64)
			for i := range sessions {
				key := fmt.Sprint("aggregate-", i)
				for id := range int64(perSession) {
					size := 100
					if large > 0 && (int(id)+i*100)%1000 == 500 {
						size = large
					}
					broker.sendBody(key, fmt.Sprintf("%s/%d", key, id+1), sized(key, id+1, size))
				}
				want[key] = perSession
			}
			s := start(t, broker, newReadModels(time.Millisecond), nil)
			s.settled(t, time.Minute)
			s.model.applies(t, want)
			s.end(t)
			mean = float64(broker.asked) / float64(broker.asks)
		})
		return mean
	}
	without := mean(t, 0)
	for _, size := range []int{200 << 10, 900 << 10} {
		with := mean(t, size)
		t.Logf("a message of %d KiB in a thousand: %.0f messages asked for at once, %.0f without", size>>10, with, without)
		if with < 0.9*without {
			t.Errorf("with a message of %d KiB in a thousand, %.0f messages are asked for at once, and %.0f without", size>>10, with, without)
		}
	}
}

// If many sessions receive messages that are much larger than before, they request fewer
// messages, and the size of all their messages stays near the bound.
func TestLargeMessagesOfAllSessionsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const sessions, bufferBytes, size = 16, 1 << 20, 16 << 10
		broker := newFakeBroker(2*time.Millisecond, time.Minute)
		want := make(map[string]int64)
		send := func(from, to int64, size int) {
			for i := range sessions {
				key := fmt.Sprint("aggregate-", i)
				for id := from; id <= to; id++ {
					broker.sendBody(key, fmt.Sprintf("%s/%d", key, id), sized(key, id, size))
				}
				want[key] = to
			}
		}
		s := start(t, broker, newReadModels(50*time.Millisecond), func(o *drain.Options) {
			o.Slots, o.BufferBytes = sessions, bufferBytes
		})
		send(1, 10, 100)
		s.settled(t, time.Minute)
		// Credit that was granted before cannot be withdrawn.
		send(11, 300, size)
		s.settled(t, 10*time.Minute)
		broker.mu.Lock()
		broker.maxOut = 0
		broker.mu.Unlock()
		send(301, 400, size)
		s.settled(t, 10*time.Minute)
		s.model.applies(t, want)
		// The bound is the inboxes and the queues, one more message in each of both per
		// session, and the messages that are being settled.
		broker.mu.Lock()
		if limit := 2*bufferBytes + 4*sessions*size; broker.maxOut > limit {
			t.Errorf("%d KiB were out at once, more than %d", broker.maxOut>>10, limit>>10)
		}
		broker.mu.Unlock()
		s.end(t)
	})
}
