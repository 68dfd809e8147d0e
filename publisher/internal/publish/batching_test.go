package publish_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

func TestBatchesByPolicy(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		policy publish.Batching
		sends  int // for 10 keys with 3 events each that were queued before Run
	}{
		{publish.BatchingAuto, 1},
		{publish.BatchingMixed, 1},
		{publish.BatchingSession, 10},
		{publish.BatchingOff, 30},
	} {
		t.Run(string(test.policy), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBroker(func([]*event.Message) answer { return ok(time.Second) })
				h := newHarness(t, b, func(o *publish.Options) { o.Batching = test.policy })
				start := time.Now()
				for id := range int64(30) {
					h.submit(t, fmt.Sprint("aggregate-", id%10), id/10+1)
				}
				h.start(t.Context())
				h.finish(t)
				if _, sends, _ := b.count(); sends != test.sends {
					t.Errorf("%d sends, want %d", sends, test.sends)
				}
				// The sends of different keys run concurrently, those of one key one
				// after another.
				if took := time.Since(start); took > 3*time.Second {
					t.Errorf("took %v, want 3 s at most", took)
				}
				if err := checkOrder(b.stored(), nothing); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestRefusedBatchesDegradeThePolicyOnce(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fault    publish.Fault
		degraded float64
		keys     int // in any send after the refusals
		events   bool
	}{
		{publish.FaultMixed, 1, 1, true},
		{publish.FaultBatch, 1, 1, false},
	} {
		t.Run(test.fault.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBroker(func(messages []*event.Message) answer {
					for _, m := range messages {
						if m.SessionKey != messages[0].SessionKey || test.fault == publish.FaultBatch && len(messages) > 1 {
							return fails(test.fault)
						}
					}
					return ok(time.Millisecond)
				})
				registry := prometheus.NewRegistry()
				h := newHarness(t, b, func(o *publish.Options) {
					o.Metrics = publish.NewMetrics(registry)
					o.MaxBatchEvents = 20
				})
				for id := range int64(300) {
					h.submit(t, fmt.Sprint("aggregate-", id%30), id/30+1)
				}
				h.start(t.Context())
				h.finish(t)
				if err := testutil.GatherAndCompare(registry, strings.NewReader(fmt.Sprintf(`
# HELP penstock_publisher_batching_degraded_total Times that the topic refused batches, and the publisher continued with smaller ones. PENSTOCK_BATCHING avoids the attempts.
# TYPE penstock_publisher_batching_degraded_total counter
penstock_publisher_batching_degraded_total %v
`, test.degraded)), "penstock_publisher_batching_degraded_total"); err != nil {
					t.Error(err)
				}
				if topic, _, _ := b.count(); topic != 300 {
					t.Errorf("%d events on the topic, want each of 300 once", topic)
				}
				batches := false
				for _, s := range b.seen() {
					batches = batches || s.answer.fault == nil && s.events > 1
				}
				if batches != test.events {
					t.Errorf("batches of one key: %v, want %v", batches, test.events)
				}
			})
		})
	}
}

// TestTooLargeBatchIsHalved covers a link that did not announce its limit.
func TestTooLargeBatchIsHalved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(func(messages []*event.Message) answer {
			if len(messages) > 10 {
				return fails(publish.FaultTooLarge)
			}
			return ok(time.Millisecond)
		})
		h := newHarness(t, b, nil)
		for id := range int64(1000) {
			h.submit(t, fmt.Sprint("aggregate-", id%7), id/7+1)
		}
		h.start(t.Context())
		h.finish(t)
		topic, sends, _ := b.count()
		if topic != 1000 || sends > 250 {
			t.Errorf("%d events on the topic in %d sends, want 1000 in little more than 100", topic, sends)
		}
		if err := checkOrder(b.stored(), nothing); err != nil {
			t.Error(err)
		}
	})
}

// TestBatchSizeFollowsTheSizeThatTheLinkAccepts checks that after the first batches few
// events are encoded for a batch that they do not fit into.
func TestBatchSizeFollowsTheSizeThatTheLinkAccepts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const learning = 50
		sends, cut, sent := 0, 0, 0
		b := newBroker(func(messages []*event.Message) answer {
			if sends++; sends > learning {
				cut += max(0, len(messages)-100)
				sent += min(len(messages), 100)
			}
			return answer{after: time.Millisecond, fits: 100}
		})
		h := startHarness(t, b, nil)
		for id := range int64(50_000) {
			h.submit(t, fmt.Sprint("aggregate-", id%1000), id/1000+1)
		}
		h.finish(t)
		if cut > sent/20 {
			t.Errorf("%d events were cut off batches of %d", cut, sent)
		}
		if mean := sent / (sends - learning); mean < 80 {
			t.Errorf("%d events in the mean batch, want nearly 100", mean)
		}
	})
}

func TestEventThatIsTooLarge(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name             string
		claimCheck, fits bool // the option; and whether claim checks fit
		reason           event.Reason
	}{
		{"becomes a claim check", true, true, ""},
		{"is quarantined if its claim check is too large too", true, false, event.ReasonTooLarge},
		{"is quarantined without claim checks", false, true, event.ReasonTooLarge},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBroker(func(messages []*event.Message) answer {
					for i, m := range messages {
						if m.EventID == 50 && (!m.ClaimCheck || !test.fits) {
							if i > 0 {
								return answer{fits: i}
							}
							a := fails(publish.FaultTooLarge)
							a.fault.First = true
							return a
						}
					}
					return ok(0)
				})
				h := newHarness(t, b, func(o *publish.Options) { o.ClaimCheck = test.claimCheck })
				for id := range int64(100) {
					h.submit(t, "a", id+1)
				}
				h.start(t.Context())
				h.finish(t)
				if h.ackedEvents() != 100 {
					t.Errorf("%d events are acknowledged, want all 100", h.ackedEvents())
				}
				var contract *event.ContractError
				if errors.As(h.quarantined[50], &contract) != (test.reason != "") || contract != nil && contract.Reason != test.reason {
					t.Errorf("quarantined for %v, want %q", h.quarantined[50], test.reason)
				}
				skipped := func(_ string, id int64) bool { return test.reason != "" && id == 50 }
				if err := checkOrder(b.stored(), skipped); err != nil {
					t.Error(err)
				}
				for _, m := range b.stored() {
					if m.ClaimCheck != (m.EventID == 50) {
						t.Errorf("claim check of %s: %v", m.MessageID, m.ClaimCheck)
					}
				}
			})
		})
	}
}

// TestRefusalOnAnEndedLinkQuarantinesNoEvent: the refusal on an ended link may be that of an
// earlier message, and all links may have ended at the same time.
func TestRefusalOnAnEndedLinkQuarantinesNoEvent(t *testing.T) {
	t.Parallel()
	for _, fault := range []publish.Fault{
		publish.FaultTooLarge, publish.FaultRefused, publish.FaultBatch, publish.FaultFatal,
	} {
		for _, claimCheck := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				ended := fails(fault)
				ended.fault.First, ended.fault.Broken = true, true
				b := newBroker(answers(ended, ended))
				h := startHarness(t, b, func(o *publish.Options) {
					o.ClaimCheck, o.Connections = claimCheck, 2
				})
				h.submit(t, "a", 1)
				h.finish(t)
				if len(h.quarantined) > 0 {
					t.Errorf("%v: quarantined for %v", fault, h.quarantined[1])
				}
				if topic := b.stored(); len(topic) != 1 || topic[0].ClaimCheck {
					t.Errorf("%v: topic has %+v, want the whole event", fault, topic)
				}
				connections := map[int]bool{}
				for _, send := range b.seen() {
					connections[send.conn] = true
				}
				if len(connections) != 3 {
					t.Errorf("%v: sent on %d connections, want 3", fault, len(connections))
				}
			})
		}
	}
}
