package simulation

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
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
}

// run looks every second until ctx ends.
func (s *settlements) run(ctx context.Context) {
	if slices.ContainsFunc(s.world.plan.Faults, func(f Fault) bool { return f.Kind == removal }) {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if len(s.findings) < 4 {
				s.look(ctx)
			}
		}
	}
}

// look reads what the broker still has, then what is parked, and the read models last. So an
// event that is in none of them was in none when the broker was asked.
func (s *settlements) look(ctx context.Context) {
	settled := s.settled()
	var parked []struct {
		Unit struct {
			Projection string `bson:"projection"`
			Aggregate  string `bson:"aggregateId"`
		} `bson:"_id"`
	}
	cursor, err := s.world.state("parked").Find(ctx, bson.D{})
	if err != nil || cursor.All(ctx, &parked) != nil {
		return
	}
	var models []model
	cursor, err = s.world.models("tally").Find(ctx, bson.D{},
		options.Find().SetProjection(bson.D{{Key: "lastEventId", Value: 1}}).SetBatchSize(10000))
	if err != nil || cursor.All(ctx, &models) != nil {
		return
	}
	live := s.live
	s.live = live || len(models) > 0
	if !live {
		return
	}
	for _, m := range parked {
		if m.Unit.Projection == s.world.named("tally") {
			delete(settled, m.Unit.Aggregate)
		}
	}
	applied := make(map[string]int64, len(models))
	for _, m := range models {
		applied[m.ID] = m.Last
	}
	for aggregate, event := range settled {
		if applied[aggregate] < event {
			s.findings = append(s.findings, fmt.Sprintf("at %v: the message of %s/%d is settled, the read model is at event %d, and the aggregate is not parked",
				time.Since(s.world.history.began), aggregate, event, applied[aggregate]))
		}
	}
}

// settled returns the last event of each aggregate whose message is settled.
func (s *settlements) settled() map[string]int64 {
	accepted, err := s.world.bus.Accepted(s.world.topic())
	if err != nil {
		return nil
	}
	unsettled := make(map[string]bool)
	for _, queue := range []string{s.world.subscription(), s.world.subscription() + "/$DeadLetterQueue"} {
		messages, err := s.world.bus.Messages(queue, 0, math.MaxInt)
		if err != nil {
			return nil
		}
		for _, m := range messages {
			unsettled[m.MessageID] = true
		}
	}
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	last := make(map[string]int64)
	for _, m := range accepted {
		// A message that is accepted at this instant may be in no queue yet.
		if unsettled[m.MessageID] || s.world.lost[m.MessageID] || !m.AcceptedAt.Before(time.Now()) {
			continue
		}
		if aggregate, event, ok := splitMessageID(m.MessageID); ok {
			last[aggregate] = max(last[aggregate], event)
		}
	}
	return last
}
