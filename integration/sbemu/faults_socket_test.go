package sbemu_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu"
	"github.com/penstock-cdc/penstock/integration/sbemu/control"
)

// TestFaultsOverSockets uses the server like another process: over TCP, with faults over
// HTTP.
func TestFaultsOverSockets(t *testing.T) {
	t.Parallel()

	cfg := sbemu.Default()
	cfg.Topics[0].Record = 100
	e := socket(t, cfg)

	h := httptest.NewServer(control.NewHandler(e.Server))
	defer h.Close()

	ctl := control.NewClient(h.URL, nil)
	defer ctl.Close()

	c := e.client()
	s := e.sender(c, "events")
	e.send(s, "a", "1", "2", "1")

	totals, err := ctl.Totals(e.ctx, "events")
	must(t, err)
	equal(t, "totals", totals, sbemu.Totals{Accepted: 2, Duplicates: 1})

	accepted, err := ctl.Accepted(e.ctx, "events")
	must(t, err)
	equal(t, "accepted", len(accepted), 3)

	must(t, ctl.RefuseSends(e.ctx, "events", 1, "com.microsoft:server-busy"))
	condition(t, s.SendMessage(e.ctx, message("3", "a"), nil), "com.microsoft:server-busy")

	must(t, ctl.Throttle(e.ctx, time.Hour))
	condition(t, s.SendMessage(e.ctx, message("3", "a"), nil), "com.microsoft:server-busy")
	must(t, ctl.ClearFaults(e.ctx))
	must(t, ctl.LimitCredits(e.ctx, 1000))
	must(t, ctl.LimitCredits(e.ctx, 0))

	must(t, ctl.SetLatency(e.ctx, time.Millisecond, time.Millisecond))

	r := e.acceptNext(c)
	equal(t, "received", len(e.receive(r, 2)), 2)

	counts, err := ctl.Counts(e.ctx, queue)
	must(t, err)
	equal(t, "counts", counts, sbemu.Counts{Active: 2, Locked: 2})

	sessions, err := ctl.Sessions(e.ctx, queue)
	must(t, err)
	equal(t, "session is locked", sessions[0].Locked, true)

	msgs, err := ctl.Messages(e.ctx, queue, 2, 10)
	must(t, err)
	equal(t, "messages", len(msgs), 1)

	must(t, ctl.LoseSessionLock(e.ctx, queue, "a"))

	if err := ctl.LoseSessionLock(e.ctx, queue, "none"); !errors.Is(err, control.ErrRefused) {
		t.Fatal(err)
	}

	must(t, ctl.DetachLinks(e.ctx, "events", "amqp:link:detach-forced"))

	conns, err := ctl.Connections(e.ctx)
	must(t, err)
	equal(t, "connections", len(conns), 1)

	n, err := ctl.DropConnections(e.ctx, control.DropConnections{IDs: []uint64{conns[0].ID}})
	must(t, err)
	equal(t, "dropped", n, 1)

	// A new client can do what the dropped connection interrupted.
	ctx, cancel := context.WithTimeout(e.ctx, time.Minute)
	defer cancel()

	again, err := e.client().AcceptNextSessionForSubscription(ctx, "events", "projector", nil)
	must(t, err)
	equal(t, "delivery count", e.receive(again, 1)[0].DeliveryCount, 2)
}

// TestLossesOverSockets injects losses like another process: by regular expressions of
// message ids.
func TestLossesOverSockets(t *testing.T) {
	t.Parallel()

	cfg := sbemu.Default()
	cfg.Topics[0].Subscriptions[0].DeadLetterExpired = true
	e := socket(t, cfg)

	h := httptest.NewServer(control.NewHandler(e.Server))
	defer h.Close()

	ctl := control.NewClient(h.URL, nil)
	defer ctl.Close()

	must(t, ctl.LoseMessages(e.ctx, "events", "/2$"))
	must(t, ctl.ExpireMessages(e.ctx, "events", "/[34]$"))

	for _, wrong := range []error{
		ctl.LoseMessages(e.ctx, "none", ""), ctl.ExpireMessages(e.ctx, "none", ""), ctl.LoseMessages(e.ctx, "events", "("),
	} {
		if !errors.Is(wrong, control.ErrRefused) {
			t.Errorf("ordered: %v", wrong)
		}
	}

	s := e.sender(e.client(), "events")
	e.send(s, "a", "a/1", "a/2", "a/3", "a/4")

	counts, err := ctl.Counts(e.ctx, queue)
	must(t, err)
	equal(t, "counts", counts, sbemu.Counts{Active: 1, DeadLettered: 2})

	must(t, ctl.ClearFaults(e.ctx))
	e.send(s, "b", "b/2", "b/3")
	counts, err = ctl.Counts(e.ctx, queue)
	must(t, err)
	equal(t, "counts after the end", counts, sbemu.Counts{Active: 3, DeadLettered: 2})
}
