package kube_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/proc"
	"github.com/penstock-cdc/penstock/integration/verify"
)

// await polls until the condition holds.
func (s *scenario) await(what string, holds func() bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeoutCause(s.t.Context(), settleTimeout, fmt.Errorf("not within %s", settleTimeout))
	defer cancel()
	must(s.t, proc.Await(ctx, poll, what, func() (bool, error) { return holds(), nil }))
}

// keeps polls during d, and fails if the condition does not hold all the time.
func (s *scenario) keeps(what string, d time.Duration, holds func() bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), d)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		if !holds() {
			s.t.Errorf("%s: not for %s", what, d)
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// accepted returns the messages that the topic has accepted so far.
func (s *scenario) accepted() []verify.Accepted {
	s.t.Helper()
	accepted, err := s.backend.Accepted()
	must(s.t, err)
	return accepted
}

// drained waits until the topic has accepted as many events as were stored and every
// message is settled. The time depends on the machine, so it fails only if there is no
// progress for settleTimeout.
func (s *scenario) drained(stored int) {
	s.t.Helper()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for highest, moved := 0, time.Now(); ; {
		published, err := s.backend.Published()
		must(s.t, err)
		backlog, err := s.backend.Backlog()
		must(s.t, err)
		if published >= stored && backlog == (harness.Backlog{}) {
			return
		}
		if done := 2*published - backlog.Active; done > highest {
			highest, moved = done, time.Now()
		}
		if time.Since(moved) > settleTimeout {
			s.t.Fatalf("nothing has moved for %s: of %d events %d are published, and the subscription has %+v",
				settleTimeout, stored, published, backlog)
		}
		select {
		case <-tick.C:
		case <-s.t.Context().Done():
			s.t.Fatal(context.Cause(s.t.Context()))
		}
	}
}

// invariants stops the load, waits until all stored events are projected, and checks the
// read models and the topic. Every test ends with it. It returns the late messages, which
// the caller accepts or not.
func (s *scenario) invariants() (topic *verify.TopicReport, late []verify.Accepted) {
	s.t.Helper()
	stored := s.load.end()
	s.drained(len(stored))
	report, err := verify.ReadModels(s.t.Context(), s.events, s.models, s.workload.Oracle, nil)
	must(s.t, err)
	if !report.OK() {
		s.t.Errorf("%d of %d read models are right:\n%s", report.Right, report.Expected, strings.Join(report.Findings, "\n"))
	}
	if report.Events != len(stored) {
		s.t.Errorf("the store holds %d events, not the %d that were stored", report.Events, len(stored))
	}
	all := s.accepted()
	current, late := verify.Terms(all)
	topic = verify.Topic(all, stored)
	for _, finding := range topic.Findings {
		s.t.Errorf("on the topic: %s", finding)
	}
	for _, finding := range verify.Topic(current, stored).Findings {
		s.t.Errorf("on the topic, without %d late messages: %s", len(late), finding)
	}
	s.t.Logf("%d read models of %d events are right; %d terms, %d repeats, %d late",
		report.Right, report.Events, topic.Epochs, topic.Repeats, len(late))
	return topic, late
}

// neverLate fails if a message was accepted after one of a later term.
func (s *scenario) neverLate(late []verify.Accepted) {
	s.t.Helper()
	if len(late) > 0 {
		s.t.Errorf("terms overlapped: %d messages are late, the first %s of epoch %d",
			len(late), late[0].MessageID, late[0].Epoch)
	}
}
