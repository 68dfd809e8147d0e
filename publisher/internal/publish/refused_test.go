package publish_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
)

// refusing answers with bad if a message has a bad key, also in a batch with others. It
// accepts other messages after a millisecond.
func refusing(bad answer, spoils func(m *event.Message) bool) func([]*event.Message) answer {
	return func(messages []*event.Message) answer {
		if slices.ContainsFunc(messages, spoils) {
			return bad
		}
		return ok(time.Millisecond)
	}
}

func isBad(m *event.Message) bool { return strings.HasPrefix(m.SessionKey, "bad-") }

// feed submits events of the key until ctx ends, and returns their number.
func (h *harness) feed(ctx context.Context, key string, every time.Duration) int64 {
	id := int64(0)
	for ; ctx.Err() == nil; id++ {
		if err := h.Submit(ctx, item(key, id+1)); err != nil {
			break
		}
		<-time.After(every)
	}
	return id
}

// ended waits for the end of Run, and checks its error.
func (h *harness) ended(t *testing.T, want error) {
	t.Helper()
	if err := <-h.ran; !errors.Is(err, want) {
		t.Errorf("run gives %v, want %v", err, want)
	}
}

const killsLinks = "kills links"

// badFaults are the ways in which the topic can permanently refuse an event.
func badFaults() map[string]answer {
	return map[string]answer{
		"refused":   fails(publish.FaultRefused),
		"unknown":   fails(publish.FaultTransient),
		killsLinks:  fails(publish.FaultDisconnected),
		"times out": ok(time.Hour),
	}
}

// TestBadKeysDoNotSlowDownAHealthyKey has as many bad keys as concurrent sends, and one
// healthy key.
func TestBadKeysDoNotSlowDownAHealthyKey(t *testing.T) {
	t.Parallel()
	const sends, minutes = 16, 5
	for fault, bad := range badFaults() {
		if fault == killsLinks {
			continue // see TestMessagesThatBreakTheConnectionWait
		}
		for _, policy := range []publish.Batching{publish.BatchingOff, publish.BatchingSession, publish.BatchingMixed} {
			t.Run(fault+"/"+string(policy), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					b := newBroker(refusing(bad, isBad))
					h := newHarness(t, b, func(o *publish.Options) {
						o.Batching, o.MaxSends = policy, sends
					})
					ctx, cancel := context.WithTimeout(t.Context(), minutes*time.Minute)
					defer cancel()
					h.start(ctx)
					for key := range int64(sends) {
						h.submit(t, fmt.Sprint("bad-", key), 1_000_000+key)
					}
					synctest.Wait()
					submitted := h.feed(ctx, "healthy", 20*time.Millisecond)
					h.ended(t, context.DeadlineExceeded)
					if err := checkOrder(b.stored(), nothing); err != nil {
						t.Error(err)
					}
					// At the start, one send may have to be recognised as slow.
					late := submitted - int64(len(b.stored()))
					if late > 2 {
						t.Errorf("%d of %d events of the healthy key are not on the topic", late, submitted)
					}
					longest := time.Duration(0)
					var last time.Time
					for _, s := range b.seen() {
						if s.answer.fault != nil || s.answer.after == time.Hour {
							continue
						}
						if !last.IsZero() {
							longest = max(longest, s.at.Sub(last))
						}
						last = s.at
					}
					if longest > 1100*time.Millisecond {
						t.Errorf("the healthy key had to wait for %v", longest)
					}
					want := 0 // only an explicit refusal is permanent
					if fault == "refused" {
						want = sends
					}
					if len(h.quarantined) != want {
						t.Errorf("%d of %d bad events are in the quarantine after %d min, want %d", len(h.quarantined), sends, minutes, want)
					}
				})
			})
		}
	}
}

// TestMessagesThatBreakTheConnectionWait covers messages whose sends also fail the other
// sends of their connection.
func TestMessagesThatBreakTheConnectionWait(t *testing.T) {
	t.Parallel()
	for _, policy := range []publish.Batching{publish.BatchingOff, publish.BatchingMixed} {
		synctest.Test(t, func(t *testing.T) {
			b := newBroker(refusing(fails(publish.FaultDisconnected), isBad))
			h := newHarness(t, b, func(o *publish.Options) { o.Batching = policy })
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			h.start(ctx)
			for key := range int64(4) {
				h.submit(t, fmt.Sprint("bad-", key), 1_000_000+key)
			}
			submitted := h.feed(ctx, "healthy", 100*time.Millisecond)
			h.ended(t, context.DeadlineExceeded)
			if len(h.quarantined) != 0 {
				t.Errorf("%s: %d events are in the quarantine without a refusal", policy, len(h.quarantined))
			}
			if late := submitted - int64(len(b.stored())); late > 2 {
				t.Errorf("%s: %d of %d events of the healthy key are not on the topic", policy, late, submitted)
			}
			if err := checkOrder(b.stored(), nothing); err != nil {
				t.Errorf("%s: %v", policy, err)
			}
		})
	}
}

// TestRefusedEventIsQuarantinedAndItsKeyContinues checks for each policy that only the refused
// event is quarantined, with the reason. An event that fails in another way waits, however
// long that lasts.
func TestRefusedEventIsQuarantinedAndItsKeyContinues(t *testing.T) {
	t.Parallel()
	for fault, bad := range badFaults() {
		for _, policy := range []publish.Batching{publish.BatchingOff, publish.BatchingSession, publish.BatchingMixed} {
			t.Run(fault+"/"+string(policy), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					outage := time.Now().Add(10 * time.Minute) // of other faults than a refusal
					b := newBroker(refusing(bad, func(m *event.Message) bool {
						return m.AggregateID == "bad" && m.EventID == 50 && (fault == "refused" || time.Now().Before(outage))
					}))
					h := newHarness(t, b, func(o *publish.Options) { o.Batching = policy })
					start := time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
					defer cancel()
					for id := range int64(100) {
						h.submit(t, "bad", id+1)
						if err := h.Submit(ctx, publish.Item{Event: item(fmt.Sprint("good-", id), 1).Event, Ticket: uint64(1000 + id)}); err != nil {
							t.Fatal(err)
						}
					}
					h.start(ctx)
					for id := int64(1); h.ackedEvents() < 200+int(id)-1 && id < 1000; id++ {
						if err := h.Submit(ctx, publish.Item{Event: item("probe", id).Event, Ticket: uint64(10_000 + id)}); err != nil {
							t.Fatal(err)
						}
						<-time.After(time.Second)
					}
					took := time.Since(start)
					h.finish(t)
					if fault != "refused" {
						if err := checkOrder(b.stored(), nothing); err != nil || len(h.quarantined) > 0 {
							t.Errorf("after the outage: %v, quarantined: %v", err, h.quarantined)
						}
						if late := time.Since(outage); late > 2*time.Minute {
							t.Errorf("the event is on the topic %v after the outage", late)
						}
						return
					}
					if err := checkOrder(b.stored(), func(key string, id int64) bool { return key == "bad" && id == 50 }); err != nil {
						t.Error(err)
					}
					var contract *event.ContractError
					if len(h.quarantined) != 1 || !errors.As(h.quarantined[50], &contract) || contract.Reason != event.ReasonRefused {
						t.Fatalf("quarantined: %v", h.quarantined)
					}
					if !strings.Contains(contract.Detail, bad.fault.Err.Error()) {
						t.Errorf("the reason is %q, without the broker's %q", contract.Detail, bad.fault.Err)
					}
					if took > 30*time.Second {
						t.Errorf("the event went to the quarantine after %v", took)
					}
				})
			})
		}
	}
}

// TestNothingIsQuarantinedWhileEverythingIsRefused: if the topic refuses everything, the
// events are not the reason.
func TestNothingIsQuarantinedWhileEverythingIsRefused(t *testing.T) {
	t.Parallel()
	for fault, bad := range badFaults() {
		for _, keys := range []int64{1, 2, 100} {
			t.Run(fmt.Sprint(fault, "/", keys), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					over := time.Now().Add(30 * time.Minute)
					b := newBroker(func([]*event.Message) answer {
						if time.Now().Before(over) {
							return bad
						}
						return ok(time.Millisecond)
					})
					h := startHarness(t, b, nil)
					for id := range int64(300) {
						h.submit(t, fmt.Sprint("aggregate-", id%keys), id/keys+1)
					}
					h.finish(t)
					if len(h.quarantined) > 0 {
						t.Errorf("quarantined: %v", h.quarantined)
					}
					if waited := time.Since(over); waited > 45*time.Second {
						t.Errorf("publishing took %v after the topic accepted events again", waited)
					}
					if _, sends, _ := b.count(); sends > 60*30*60 {
						t.Errorf("%d sends in 30 min in which none was accepted", sends)
					}
				})
			})
		}
	}
}

// TestRefusalsDoNotReplaceConnections: a refusal is an answer, so the connection works.
func TestRefusalsDoNotReplaceConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(refusing(fails(publish.FaultTransient), isBad))
		h := newHarness(t, b, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		h.start(ctx)
		for key := range int64(20) {
			h.submit(t, fmt.Sprint("bad-", key), 1_000_000+key)
		}
		h.feed(ctx, "healthy", 20*time.Millisecond)
		h.ended(t, context.DeadlineExceeded)
		if _, _, conns := b.count(); conns > 40 {
			t.Errorf("%d connections were opened in 10 min", conns)
		}
	})
}

// TestBatchOfOneRefusedMessageKeepsThePolicy: the message is at fault, not the batch.
func TestBatchOfOneRefusedMessageKeepsThePolicy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(func(messages []*event.Message) answer {
			a := refusing(fails(publish.FaultRefused), isBad)(messages)
			a.after = time.Millisecond
			return a
		})
		h := newHarness(t, b, func(o *publish.Options) { o.Batching, o.Final = publish.BatchingMixed, true })
		for id := range int64(1000) {
			key := fmt.Sprint("aggregate-", id%100)
			if id == 500 {
				key = "bad-"
			}
			h.submit(t, key, id/100+1)
		}
		h.start(t.Context())
		synctest.Wait()
		<-time.After(10 * time.Second)
		later := time.Now()
		for id := range int64(1000) {
			h.submit(t, fmt.Sprint("later-", id), id+1)
		}
		h.finish(t)
		largest := 0
		for _, s := range b.seen() {
			if !s.at.Before(later) {
				largest = max(largest, s.keys)
			}
		}
		if largest < 100 {
			t.Errorf("the largest later batch has %d keys, want many", largest)
		}
	})
}
