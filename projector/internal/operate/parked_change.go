package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/park"
)

type parkedRetryCommand struct {
	parkedFilter
	cli.Change
	cli.Output
	Wait time.Duration `name:"wait" default:"30s" help:"How long to wait for the results; 0s means not at all. The attempts continue without the command."`
}

// Validate checks the flags. kong calls it.
func (c *parkedRetryCommand) Validate() error {
	p := cli.Problems{c.parkedFilter.Validate()}
	p.Require(c.Wait >= 0, "--wait is %v: use 0s or more", c.Wait)
	return errors.Join(p...)
}

// retried is the result of the command.
type retried struct {
	// Retried is how many aggregates were handed to the projectors.
	Retried int64 `json:"retried"`
	// Resumed have caught up, Parked are parked again, and Pending have no result yet.
	Resumed int64 `json:"resumed"`
	Parked  int64 `json:"parked"`
	Pending int64 `json:"pending"`
	// Discarded are discarded: another command has discarded them since they were listed, and
	// they stay so.
	Discarded int64 `json:"discarded"`
	// Changed is how many were not handed to the projectors, because they have changed since
	// they were listed, or are being resumed. They are counted by their present state too.
	Changed int64 `json:"changed"`
}

func (c *parkedRetryCommand) runOn(ctx context.Context, e *Environment, s *stored) error {
	entries, err := s.entries(ctx)
	if err != nil {
		return err
	}
	retired := namesOf(entries, func(entry *catalog.Entry) bool {
		return entry.RetiredAt != nil && e.Config.Pipeline().SameEvents(entry.Pipeline)
	})
	if name := c.Projection; slices.Contains(retired, name) {
		return fmt.Errorf("%w: %s. Declare it again, or delete its read model and its parked list with \"projector projections drop %s --why REASON\"", errRetired, name, name)
	}
	all, err := c.chooseAmong(ctx, e, s, entries, retired...)
	if err != nil {
		return err
	}
	switch {
	case len(all.found) > 0:
	case len(retired) > 0:
		return fmt.Errorf("%w; no projector retries those of the retired projections %s", all.nothing(e), strings.Join(retired, ", "))
	default:
		return all.nothing(e)
	}
	var n int64
	err = s.change(ctx, c.Change, "retry "+amount(all.found, all.total), func(ctx context.Context) (map[string]int64, error) {
		var err error
		n, err = s.parked.Retry(ctx, all.found)
		return map[string]int64{"retried": n}, err
	})
	if err != nil {
		return err
	}
	result, again, err := awaitRetried(ctx, s.parked, all.found, c.Wait)
	if err != nil {
		return err
	}
	result.Retried, result.Changed = n, int64(len(all.found))-n
	return c.report(e, result, again, entries)
}

// errRetired is returned for a projection whose parked aggregates no projector retries.
var errRetired = errors.New("no projector retries the parked aggregates of a retired projection")

// report prints the result. It returns [cli.ErrFindings] if aggregates are parked again, or if
// another command has discarded them.
func (c *parkedRetryCommand) report(e *Environment, r retried, again []park.Listed, entries map[string]*catalog.Entry) error {
	var err error
	if c.JSON() {
		err = cli.PrintJSON(e.stdout, r)
	} else {
		text := fmt.Sprintf("%d resumed, %d parked again, %d pending", r.Resumed, r.Parked, r.Pending)
		if r.Discarded > 0 {
			text += fmt.Sprintf(", %d discarded meanwhile", r.Discarded)
		}
		fmt.Fprintln(e.stdout, text)
		err = cli.List(e.stdout, c.Output, again, parkedColumns(time.Now(), entries))
	}
	if r.Changed > 0 {
		fmt.Fprintf(e.stderr, "%s not retried: changed since the command listed them, or being resumed already\n", cli.Count(r.Changed, "aggregate"))
	}
	if r.Discarded > 0 {
		fmt.Fprintln(e.stderr, "another command has discarded aggregates meanwhile, and they stay so; see \"projector parked list --discarded\"")
	}
	switch {
	case err != nil:
		return err
	case r.Pending > 0 && c.Wait > 0:
		fmt.Fprintln(e.stderr, "some aggregates are pending: the projectors continue with them while a projector with the projection runs; see \"projector parked list\"")
		return cli.ErrFindings
	case r.Parked > 0 || r.Discarded > 0:
		return cli.ErrFindings
	}
	return nil
}

// retriedPoll is the interval at which the results of a retry are read.
const retriedPoll = 250 * time.Millisecond

// maxAgain is how many of the aggregates that are parked again are shown.
const maxAgain = 20

// awaitRetried waits until each of the aggregates has caught up, is parked again or is
// discarded, for at most wait. again has up to maxAgain of those that are parked again.
func awaitRetried(ctx context.Context, parked *park.Store, found []park.Listed, wait time.Duration) (r retried, again []park.Listed, err error) {
	end := time.Now().Add(wait)
	pending := found
	for {
		now, err := parked.Again(ctx, pending)
		if err != nil {
			return r, nil, err
		}
		r.Resumed += int64(len(pending) - len(now))
		pending = pending[:0:0]
		for _, m := range now {
			switch {
			case m.Discarded != nil:
				r.Discarded++
			case m.RetryAt != nil && (m.Claimed || m.Attempts == 0):
				pending = append(pending, m)
			default:
				r.Parked++
				if len(again) < maxAgain {
					again = append(again, m)
				}
			}
		}
		r.Pending = int64(len(pending))
		if len(pending) == 0 || !time.Now().Before(end) {
			return r, again, nil
		}
		if err := poll.Wait(ctx, retriedPoll); err != nil {
			return r, nil, err
		}
	}
}

type parkedDiscardCommand struct {
	parkedFilter
	cli.Change `set:"why=required"`
}

// Validate checks the flags. kong calls it.
func (c *parkedDiscardCommand) Validate() error {
	p := cli.Problems{c.parkedFilter.Validate(), c.RequireWhy("say why the aggregates may stay behind; the reason is kept with them")}
	p.Require(!c.Discarded, "--discarded is set: those aggregates are discarded already")
	return errors.Join(p...)
}

func (c *parkedDiscardCommand) runOn(ctx context.Context, e *Environment, s *stored) error {
	all, err := c.choose(ctx, e, s)
	if err != nil {
		return err
	}
	if len(all.found) == 0 {
		return all.nothing(e)
	}
	var discarded int64
	err = s.change(ctx, c.Change, "discard "+amount(all.found, all.total), func(ctx context.Context) (map[string]int64, error) {
		var err error
		discarded, err = s.parked.Discard(ctx, all.found, park.Discard{Who: c.Person(), Why: c.Why, At: time.Now()})
		return map[string]int64{"discarded": discarded}, err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, "discarded %s; see \"projector parked list --discarded\"; to resume: \"projector parked retry --discarded\"\n", cli.Count(discarded, "parked aggregate"))
	if left := int64(len(all.found)) - discarded; left > 0 {
		return fmt.Errorf("discard parked aggregates: %s changed meanwhile, or another command has retried or discarded them: see \"projector parked list\", and run the command again", cli.Count(left, "aggregate"))
	}
	return nil
}

// amount describes how many aggregates are changed, with their projections and reasons.
func amount(found []park.Listed, total int64) string {
	const limit = 3
	type group struct{ projection, reason string }
	counts := make(map[group]int)
	var order []group
	for _, m := range found {
		g := group{m.Projection, m.Reason}
		if counts[g] == 0 {
			order = append(order, g)
		}
		counts[g]++
	}
	var parts []string
	for i, g := range order {
		if i == limit {
			parts = append(parts, "…")
			break
		}
		parts = append(parts, fmt.Sprintf("%d in %s by reason %s", counts[g], g.projection, g.reason))
	}
	text := fmt.Sprintf("%d parked aggregates", len(found))
	if len(found) == 1 {
		text = fmt.Sprintf("1 parked aggregate, %q", found[0].AggregateID)
	}
	if total > int64(len(found)) {
		text += fmt.Sprintf(" of %d", total)
	}
	return text + " (" + strings.Join(parts, ", ") + ")"
}
