package verify_test

import (
	"cmp"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/integration/verify"
	"github.com/penstock-cdc/penstock/integration/workload"
)

func TestTopic(t *testing.T) {
	t.Parallel()
	events := []workload.Event{
		{AggregateID: "a", EventID: 1}, {AggregateID: "a", EventID: 2}, {AggregateID: "a", EventID: 3}, {AggregateID: "b", EventID: 1},
	}
	message := func(aggregate string, n int64) verify.Accepted {
		return verify.Accepted{AggregateID: aggregate, SessionID: aggregate, EventID: n, Epoch: 1}
	}
	elsewhere, later := message("a", 3), message("a", 3)
	elsewhere.SessionID, later.Epoch = "z", 2
	for name, test := range map[string]struct {
		accepted []verify.Accepted
		says     string
		repeats  int
		epochs   int // 0 stands for 1
	}{
		"in order":                    {[]verify.Accepted{message("a", 1), message("b", 1), message("a", 2), message("a", 3)}, "", 0, 0},
		"a prefix repeated":           {[]verify.Accepted{message("a", 1), message("a", 2), message("a", 1), message("a", 2), message("a", 3), message("b", 1)}, "", 2, 0},
		"events swapped":              {[]verify.Accepted{message("a", 1), message("a", 3), message("a", 2), message("b", 1)}, "event 3 was first published after event 1", 1, 0},
		"the last event lost":         {[]verify.Accepted{message("a", 1), message("a", 2), message("b", 1)}, "published up to event 2 of 3", 0, 0},
		"an aggregate lost":           {[]verify.Accepted{message("a", 1), message("a", 2), message("a", 3)}, "b: published up to event 0 of 1", 0, 0},
		"an event that is not stored": {[]verify.Accepted{message("a", 1), message("a", 2), message("a", 3), message("b", 1), message("c", 1)}, "is not stored", 0, 0},
		"in two terms":                {[]verify.Accepted{message("a", 1), message("b", 1), message("a", 2), message("a", 2), later}, "", 1, 2},
		"in another session":          {[]verify.Accepted{message("a", 1), message("a", 2), elsewhere, message("b", 1)}, "is in session a and in session z", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := verify.Topic(test.accepted, events)
			says := strings.Join(report.Findings, "; ")
			if (says == "") != (test.says == "") || !strings.Contains(says, test.says) {
				t.Errorf("says %q, not %q", says, test.says)
			}
			if report.Repeats != test.repeats || report.Epochs != cmp.Or(test.epochs, 1) {
				t.Errorf("counts %d repeats in %d terms, not %d in %d", report.Repeats, report.Epochs, test.repeats, cmp.Or(test.epochs, 1))
			}
		})
	}
}
