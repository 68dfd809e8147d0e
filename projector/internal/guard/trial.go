package guard

import (
	"time"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// HoldTime is how long a failure is undecided while nothing shows that its rule works.
const HoldTime = 10 * time.Second

// minimum is the number of failures that are the events' own although nothing, or too little,
// shows that their rule works.
const minimum = 10

// trial judges the failures of a rule that has not succeeded. A few are the events' own after
// HoldTime; more are the rule's.
type trial struct {
	// failed are the events that have failed, with the times of their first failure. There
	// is at most one more than the minimum.
	failed map[string]time.Time
}

// judge judges the failure of an event. It counts each event once.
func (t *trial) judge(id string) model.Judgement {
	if t.failed == nil {
		t.failed = make(map[string]time.Time)
	}
	since, again := t.failed[id]
	if !again && len(t.failed) <= minimum {
		since = time.Now()
		t.failed[id] = since
	}
	switch {
	case len(t.failed) > minimum:
		return model.RuleWrong
	case time.Since(since) >= HoldTime:
		return model.EventWrong
	}
	return model.Undecided
}
