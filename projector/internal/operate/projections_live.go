package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
)

// blockedFor is how long a generation may wait for parked or missing aggregates before it counts
// as waiting for a person. Aggregates that resume by themselves mostly do so in less time.
const blockedFor = time.Minute

// awaitLive waits until the declared definitions are live.
func (c *projectionsWatchCommand) awaitLive(ctx context.Context, e *Environment, s *stored) error {
	projections, err := load(e.Config.Projections.Path, e.inCode)
	if err != nil {
		return e.refuseProjections(err)
	}
	declared := catalog.Declare(projections...)
	if c.Name != "" {
		declared = slices.DeleteFunc(declared, func(d catalog.Declared) bool { return d.Name != c.Name })
	}
	if len(declared) == 0 {
		return errors.New("no definition to wait for: set PENSTOCK_PROJECTIONS to the projections that must be live")
	}
	said, blocked := map[string]string{}, map[string]time.Time{}
	for end := time.Now().Add(c.Timeout); ; {
		entries, err := s.entries(ctx)
		if err != nil && !mongox.Transient(err) {
			return err
		}
		late := ""
		for _, d := range declared {
			if err != nil {
				late = err.Error()
				break
			}
			at := standing(entries[d.Name], d)
			if at.text != said[d.Name] {
				said[d.Name] = at.text
				fmt.Fprintf(e.stdout, "projection %s: %s\n", d.Name, at.text)
			}
			if !at.blocked {
				delete(blocked, d.Name)
			} else if blocked[d.Name].IsZero() {
				blocked[d.Name] = time.Now()
			}
			if at.failed || at.blocked && time.Since(blocked[d.Name]) > blockedFor {
				return fmt.Errorf("projection %s will not become live without a person: %s; \"projector projections show %s\" has the details", d.Name, at.text, d.Name)
			}
			if !at.live {
				late = fmt.Sprintf("projection %s: %s", d.Name, at.text)
			}
		}
		switch {
		case late == "":
			return nil
		case time.Now().After(end):
			return fmt.Errorf("not live after %s (--timeout): %s", c.Timeout, late)
		}
		if err := poll.Wait(ctx, commandPoll); err != nil {
			return err
		}
	}
}

// standingOf is how far the declared definition of a projection is.
type standingOf struct {
	text                  string
	live, failed, blocked bool
}

// standing compares the entry of a projection with its declaration.
func standing(e *catalog.Entry, d catalog.Declared) standingOf {
	switch {
	case e == nil || e.RetiredAt != nil:
		return standingOf{text: "no projector has declared it yet"}
	case e.Unreadable != nil:
		return standingOf{text: e.Unreadable.Error(), failed: true}
	case e.Live != nil && e.Live.Hash == d.Hash && !e.Live.Frozen:
		return standingOf{text: fmt.Sprintf("generation %d is live", e.Live.Generation), live: true}
	case e.HasGivenUp(d.Hash):
		return standingOf{text: "the build of this definition was cancelled", failed: true}
	case e.Building == nil || e.Building.Hash != d.Hash:
		return standingOf{text: "no projector has declared this definition yet"}
	}
	b := e.Building
	at := standingOf{text: fmt.Sprintf("generation %d is %s", b.Generation, b.State), failed: b.State == catalog.Failed, blocked: b.Parked > 0 || b.Archived > 0}
	if b.Reason != "" {
		at.text += ": " + b.Reason
	}
	return at
}
