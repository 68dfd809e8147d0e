package publish_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

// blockages are the ways in which a topic can hold up one key.
func blockages() map[string]answer {
	busy := fails(publish.FaultBusy)
	busy.after = time.Millisecond
	return map[string]answer{
		"busy":           busy,
		"internal error": fails(publish.FaultTransient),
		"no answer":      ok(time.Hour),
		"slow":           ok(800 * time.Millisecond),
	}
}

// TestBlockedKeysDoNotStopTheOthers blocks one of sixteen keys, and then half of them, for
// two minutes. All other keys must be published as they come, and the blocked ones in order
// afterwards.
func TestBlockedKeysDoNotStopTheOthers(t *testing.T) {
	t.Parallel()
	for fault, bad := range blockages() {
		for _, blocked := range []int{1, 8} {
			for _, policy := range []publish.Batching{publish.BatchingOff, publish.BatchingSession, publish.BatchingMixed} {
				switch {
				case fault == "busy" && blocked > 1: // the namespace counts as busy then
				case (fault == "no answer" || fault == "slow") && policy == publish.BatchingMixed: // batches with such a key are slow
				default:
					t.Run(fmt.Sprintf("%s/%d/%s", fault, blocked, policy), func(t *testing.T) {
						t.Parallel()
						synctest.Test(t, func(t *testing.T) { blockKeys(t, bad, blocked, policy) })
					})
				}
			}
		}
	}
}

func blockKeys(t *testing.T, bad answer, blocked int, policy publish.Batching) {
	t.Helper()
	const keys, rounds, interval = 16, 120, time.Second
	var blocking atomic.Bool
	blocking.Store(true)
	b := newBroker(refusing(bad, func(m *event.Message) bool { return blocking.Load() && isBad(m) }))
	h := startHarness(t, b, func(o *publish.Options) { o.Batching = policy })
	for round := range int64(rounds) {
		for key := range keys {
			name := fmt.Sprint("good-", key)
			if key < blocked {
				name = fmt.Sprint("bad-", key)
			}
			h.submitNext(t.Context(), t, name, round+1)
		}
		<-time.After(interval)
	}
	<-time.After(time.Second)
	good := 0
	for _, m := range b.stored() {
		if strings.HasPrefix(m.AggregateID, "good-") {
			good++
		}
	}
	if want := (keys - blocked) * rounds; good != want {
		t.Errorf("%d of %d events of the other keys are on the topic during the blockage", good, want)
	}
	blocking.Store(false)
	h.finishAll(t, keys*rounds)
}

// TestOutageEndsQuicklyForManyKeys has one event of each of many keys behind an outage.
func TestOutageEndsQuicklyForManyKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const keys = 2000
		var outage atomic.Bool
		outage.Store(true)
		b := newBroker(func([]*event.Message) answer {
			if outage.Load() {
				return fails(publish.FaultTransient)
			}
			return ok(5 * time.Millisecond)
		})
		h := startHarness(t, b, nil)
		for key := range keys {
			h.submitNext(t.Context(), t, fmt.Sprint("key-", key), 1)
		}
		<-time.After(time.Hour)
		outage.Store(false)
		over := time.Now()
		h.finishAll(t, keys)
		if took := time.Since(over); took > 15*time.Second {
			t.Errorf("publishing %d events after the outage took %v", keys, took)
		}
	})
}
