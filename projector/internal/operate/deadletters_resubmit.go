package operate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/deadletter"
	"github.com/penstock-cdc/penstock/projector/internal/generation"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/verify"
)

// deadlettersResubmitCommand applies the events of dead letters again. It does not send the
// messages again: the topic would deliver them to all subscriptions and could drop them as
// duplicates, and they would arrive after later events of their aggregates. So the command
// reads the events from the event store, and removes the messages afterwards.
type deadlettersResubmitCommand struct {
	deadlettersFilter
	cli.Change
	cli.Output
	Wait time.Duration `name:"wait" default:"30s" help:"How long to wait for the projectors to resume parked aggregates. The attempts continue without the command."`
}

func (c *deadlettersResubmitCommand) needs() config.Part {
	return c.deadlettersFilter.needs() | config.PartHistory
}

// Validate implements [cli.Validator].
func (c *deadlettersResubmitCommand) Validate() error {
	p := cli.Problems{c.deadlettersFilter.Validate()}
	p.Require(c.Wait >= 0, "--wait is %v: use 0s or more", c.Wait)
	return errors.Join(p...)
}

// resubmitted is the result of the command.
type resubmitted struct {
	// Removed is the number of messages whose event every read model has.
	Removed int `json:"removed"`
	// Kept are the messages that stay in the queue.
	Kept []keptLetter `json:"kept"`
}

// keptLetter is a dead letter that stays in the queue, with the reason.
type keptLetter struct {
	Sequence    int64  `json:"sequence"`
	Reason      string `json:"reason"`
	AggregateID string `json:"aggregateId,omitempty"`
	EventID     int64  `json:"eventId,omitempty"`
	Why         string `json:"why"`
}

func (c *deadlettersResubmitCommand) runOn(ctx context.Context, e *Environment, s *stored) error {
	var found []deadLetter
	err := e.withDeadLetters(ctx, func(q deadletter.Queue) (err error) {
		looking, cancel := mongox.Timeout(ctx, peekTimeout)
		defer cancel()
		found, err = c.chooseSome(looking, e, s, q)
		return err
	})
	if err != nil || len(found) == 0 && !c.JSON() {
		return err
	}
	result := resubmitted{Kept: []keptLetter{}}
	var letters []deadLetter
	for _, d := range found {
		if d.Problem != "" {
			result.keep(d, "it is not an event: use deadletters discard")
			continue
		}
		letters = append(letters, d)
	}
	if len(letters) > 0 {
		err := e.withReadModels(ctx, s, func(store verify.Store) error {
			r, err := newResubmission(ctx, e, s, store)
			if err != nil {
				return err
			}
			return c.resubmit(ctx, e, s, r, letters, &result)
		})
		if err != nil {
			return err
		}
	}
	return c.report(e, result)
}

// resubmit asks for confirmation, resumes the parked aggregates, repairs, and removes
// messages.
func (c *deadlettersResubmitCommand) resubmit(ctx context.Context, e *Environment, s *stored, r *resubmission, letters []deadLetter, result *resubmitted) error {
	markers, discarded, aggregates := r.parked(letters)
	parked := fmt.Sprintf("%d parked", len(aggregatesOf(markers)))
	if n := len(aggregatesOf(discarded)); n > 0 {
		parked += fmt.Sprintf(" and %d discarded, which stay so", n)
	}
	what := fmt.Sprintf("bring the read models of %s up to date from the event store, of which %s, and remove %s from subscription %s of topic %s",
		cli.Count(int64(aggregates), "aggregate"), parked, cli.Count(int64(len(letters)), "dead letter"), e.Config.ServiceBus.Subscription, e.Config.ServiceBus.Topic)
	return s.change(ctx, c.Change, what, func(ctx context.Context) (map[string]int64, error) {
		counts := map[string]int64{}
		if len(markers) > 0 {
			n, err := s.parked.Retry(ctx, markers)
			counts["retried"] = n
			if err != nil {
				return counts, err
			}
			if _, _, err := awaitRetried(ctx, s.parked, markers, c.Wait); err != nil {
				return counts, err
			}
		}
		why, err := r.apply(ctx, letters)
		if err != nil {
			return counts, err
		}
		var removable []deadLetter
		for _, d := range letters {
			if why[d.Sequence] == "" {
				removable = append(removable, d)
				continue
			}
			result.keep(d, why[d.Sequence])
		}
		err = c.remove(ctx, e, removable, result)
		counts["removed"], counts["kept"] = int64(result.Removed), int64(len(result.Kept))
		return counts, err
	})
}

// remove removes messages. The projectors remove such messages too, so one that is already
// gone counts as removed.
func (c *deadlettersResubmitCommand) remove(ctx context.Context, e *Environment, letters []deadLetter, result *resubmitted) error {
	if len(letters) == 0 {
		return nil
	}
	return e.withDeadLetters(ctx, func(q deadletter.Queue) error {
		ctx, cancel := mongox.Timeout(ctx, peekTimeout)
		defer cancel()
		wanted, left := make(map[int64]bool, len(letters)), make(map[int64]bool)
		for _, d := range letters {
			wanted[d.Sequence] = true
		}
		n, err := deadletter.Remove(ctx, q, wanted, c.Limit, e.Logger)
		if err == nil && n < len(letters) {
			err = deadletter.Peek(ctx, q, c.Limit, func(m *deadletter.Message) { left[m.Sequence] = wanted[m.Sequence] })
		}
		if err != nil {
			result.Removed = n
			return err
		}
		for _, d := range letters {
			if left[d.Sequence] {
				result.keep(d, "another receiver has locked it: try again")
				continue
			}
			result.Removed++
		}
		return nil
	})
}

// report prints the result. It returns [cli.ErrFindings] if messages stay.
func (c *deadlettersResubmitCommand) report(e *Environment, r resubmitted) error {
	var err error
	if c.JSON() {
		err = cli.PrintJSON(e.stdout, r)
	} else {
		fmt.Fprintf(e.stdout, "removed, because every read model has the event: %s; kept: %d\n", cli.Count(int64(r.Removed), "dead letter"), len(r.Kept))
		err = cli.List(e.stdout, c.Output, r.Kept, func(k keptLetter) []cli.Field {
			return []cli.Field{
				{Name: "sequence", Text: strconv.FormatInt(k.Sequence, 10)},
				{Name: "reason", Text: k.Reason},
				{Name: "aggregate", Text: k.AggregateID},
				{Name: "event", Text: optionalCount(k.EventID)},
				{Name: "why it stays", Text: k.Why},
			}
		})
	}
	if err == nil && len(r.Kept) > 0 {
		return cli.ErrFindings
	}
	return err
}

func (r *resubmitted) keep(d deadLetter, why string) {
	r.Kept = append(r.Kept, keptLetter{d.Sequence, d.Reason, d.AggregateID, d.EventID, why})
}

// parked returns the markers of the letters' aggregates in live generations, and the number
// of all the letters' aggregates. A person has decided that the discarded ones stay behind, so
// they are not resumed.
func (r *resubmission) parked(letters []deadLetter) (markers, discarded []park.Listed, aggregates int) {
	seen := make(map[string]bool)
	for _, d := range letters {
		if seen[d.AggregateID] {
			continue
		}
		seen[d.AggregateID] = true
		for _, m := range d.markers {
			g, live := r.live[m.Projection]
			switch {
			case !live || m.Generation != max(g, generation.First):
			case m.Discarded != nil:
				discarded = append(discarded, m)
			default:
				markers = append(markers, m)
			}
		}
	}
	return markers, discarded, len(seen)
}

// aggregatesOf returns the aggregates of markers.
func aggregatesOf(markers []park.Listed) map[string]bool {
	found := make(map[string]bool)
	for _, m := range markers {
		found[m.AggregateID] = true
	}
	return found
}
