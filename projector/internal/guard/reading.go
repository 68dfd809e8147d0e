package guard

import (
	"fmt"
	"sync"

	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Reading judges messages that are not events. While other messages are events, the settings
// are right, and such a message may be dead-lettered. Otherwise the settings or the topic may
// be wrong, and all but a few messages stay in the subscription. Make it with [NewReading].
// It is safe for concurrent use.
type Reading struct {
	report func(error)

	mu sync.Mutex
	// read is set when a message was an event. left is how many more messages may be
	// dead-lettered before another one is an event.
	read bool
	left int
	// trial judges the messages after these.
	trial trial
	err   error
}

// NewReading makes a Reading that has seen no message. It calls report with an error when it
// begins to hold back all messages that are not events, and with nil when it ends.
func NewReading(report func(error)) *Reading {
	return &Reading{report: report}
}

// Good says that a message is an event.
func (r *Reading) Good() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read, r.left = true, window
	clear(r.trial.failed)
	if r.err != nil {
		r.err = nil
		r.report(nil)
	}
}

// Bad reports whether a message that is not an event may be dead-lettered now. Otherwise it
// must stay with the broker, and the caller asks again with the same id. explain makes the
// error if too many messages are not events: n of them since the last one that is.
func (r *Reading) Bad(id string, explain func(n int) error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.left > 0 {
		r.left--
		return true
	}
	judgement := r.trial.judge(id)
	if judgement == model.RuleWrong && r.err == nil {
		r.err = fmt.Errorf("circuit breaker: %w", explain(len(r.trial.failed)))
		r.report(r.err)
	}
	return judgement == model.EventWrong
}

// Err returns why all messages that are not events are held back; nil if they are not. read
// is set once one message was an event: then the settings are right.
func (r *Reading) Err() (err error, read bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err, r.read
}
