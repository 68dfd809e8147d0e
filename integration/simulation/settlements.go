package simulation

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu"
	"github.com/penstock-cdc/penstock/pkg/poll"
)

// settlements looks for messages that projectors have settled before their events had
// effect: a crash at that moment would lose them until something else heals the read model.
// It looks at the projection tally, which applies every event and has one definition. It does
// not look at histories that remove that projection for a time.
type settlements struct {
	world *World
	// findings describe messages that were settled too early.
	findings []string
	// live says that the tally had documents: its first build is over.
	live bool
	// seen is how many accepted messages are known, and open are those that were not settled.
	seen int
	open []sbemu.Accepted
	// settled is the last event of each aggregate whose message is settled.
	settled map[string]int64
}

// run looks every second until ctx ends.
func (s *settlements) run(ctx context.Context) {
	removed := s.world.plan.has(removal)
	poll.Every(ctx, time.Second, func() {
		s.settle()
		// A restored state has lost what was parked since its backup, and one that is being restored more.
		if !removed && !s.world.restored.Load() && s.world.setBack.Load() == 0 && !s.world.halted.Load() && len(s.findings) < 4 {
			s.look()
		}
	})
}

// look compares what the broker no longer has with what is parked and with the read models.
func (s *settlements) look() {
	models := s.world.models("tally")
	live := s.live
	s.live = live || len(models) > 0
	if !live {
		return
	}
	applied := make(map[string]int64, len(models))
	for _, m := range models {
		applied[text(m, "_id")] = number(m, "lastEventId")
	}
	parked := make(map[string]bool)
	for _, m := range s.world.state("parked") {
		if text(m, "_id", "projection") == s.world.named("tally") {
			parked[text(m, "_id", "aggregateId")] = true
		}
	}
	for aggregate, event := range s.settled {
		if applied[aggregate] < event && !parked[aggregate] && !s.world.isErased(aggregate) {
			s.findings = append(s.findings, fmt.Sprintf("at %v: the message of %s/%d is settled, the read model is at event %d, and the aggregate is not parked",
				time.Since(s.world.history.began), aggregate, event, applied[aggregate]))
		}
	}
}

// settle notes the messages that have been settled since the last look.
func (s *settlements) settle() {
	accepted, err := s.world.bus.Accepted(s.world.topic())
	if err != nil {
		return
	}
	unsettled := s.world.unsettled()
	if unsettled == nil {
		return
	}
	deadLetters, err := s.world.bus.Messages(s.world.subscription()+"/$DeadLetterQueue", 0, math.MaxInt)
	if err != nil {
		return
	}
	for _, m := range deadLetters {
		unsettled[m.MessageID] = true
	}
	s.open = append(s.open, accepted[s.seen:]...)
	s.seen = len(accepted)
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	s.open = slices.DeleteFunc(s.open, func(m sbemu.Accepted) bool {
		// A message that is accepted at this instant may be in no queue yet.
		if s.world.lost[m.MessageID] || unsettled[m.MessageID] || !m.AcceptedAt.Before(time.Now()) {
			return s.world.lost[m.MessageID]
		}
		if aggregate, event, ok := splitMessageID(m.MessageID); ok {
			s.settled[aggregate] = max(s.settled[aggregate], event)
		}
		return true
	})
}

// unsettled returns the ids of the messages that wait in the subscription; nil if the broker
// cannot be read.
func (w *World) unsettled() map[string]bool {
	waiting, err := w.bus.Messages(w.subscription(), 0, math.MaxInt)
	if err != nil {
		return nil
	}
	ids := make(map[string]bool, len(waiting))
	for _, m := range waiting {
		ids[m.MessageID] = true
	}
	return ids
}
