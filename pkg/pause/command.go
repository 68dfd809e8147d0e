package pause

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/pkg/backoff"
	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/health"
)

// commandPoll is how often a command checks whether the work has ended.
const commandPoll = 250 * time.Millisecond

// Subject is a service that can be paused and resumed.
type Subject struct {
	// Name is its name in the output, such as "stream events". Effect is the effect of a
	// pause, such as "stop publishing".
	Name, Effect string
	Store        *Store
	// Change confirms the change with the user, makes it and records it.
	Change func(ctx context.Context, flags cli.Change, what string, do func(ctx context.Context) (map[string]int64, error)) error
	// Working returns the processes that still work, given those that have stopped. nil
	// means that only one process works at a time, so none works after one has stopped.
	Working func(ctx context.Context, stopped []string) ([]string, error)
	// Nobody is the result if no process works and none has stopped. Then the pause may be
	// stored where no process reads it.
	Nobody string
	// Out gets the result.
	Out io.Writer
}

// Request has the flags of a command that pauses. Embed it.
type Request struct {
	cli.Change `set:"why=required"`
	Wait       time.Duration `name:"wait" default:"40s" help:"How long to wait until the work has ended; 0s means not at all."`
}

// Validate implements [cli.Validator].
func (r *Request) Validate() error {
	p := cli.Problems{r.RequireWhy("give the reason, which the status, the log and the audit show")}
	p.Require(r.Wait >= 0, "--wait is %v: use 0s or more", r.Wait)
	return errors.Join(p...)
}

// Pause pauses the service, and waits until the work has ended. If the work has not ended
// in time, the error is [cli.ErrFindings], and the pause stays.
func (r *Request) Pause(ctx context.Context, s Subject) error {
	before, err := s.Store.Get(ctx)
	if err != nil {
		return err
	}
	if before != nil {
		return fmt.Errorf("%s is paused already, since %s by %s: %s", s.Name, cli.Time(before.At), before.Who, before.Why)
	}
	if err := s.Change(ctx, r.Change, fmt.Sprintf("%s, until it is resumed: %s", s.Effect, s.Name), func(ctx context.Context) (map[string]int64, error) {
		_, err := s.Store.Begin(ctx, r.Person(), r.Why)
		return nil, err
	}); err != nil {
		return err
	}
	end := time.Now().Add(r.Wait)
	for {
		now, err := s.Store.Get(ctx)
		if err != nil {
			return err
		}
		if now == nil {
			return fmt.Errorf("%s was resumed while this command waited", s.Name)
		}
		working, err := s.working(ctx, now.Stopped)
		if err != nil {
			return err
		}
		if len(working) == 0 && len(now.Stopped) == 0 && s.Nobody != "" {
			fmt.Fprintf(s.Out, "%s is paused; %s\n", s.Name, s.Nobody)
			return r.unconfirmed()
		}
		if len(working) == 0 {
			fmt.Fprintf(s.Out, "%s is paused; stopped: %s\n", s.Name, orNone(now.Stopped))
			return nil
		}
		if !time.Now().Before(end) {
			fmt.Fprintf(s.Out, "%s is paused; stopped: %s; not reported yet: %s\n", s.Name, orNone(now.Stopped), orNone(working))
			return r.unconfirmed()
		}
		if err := backoff.Wait(ctx, commandPoll); err != nil {
			return err
		}
	}
}

// unconfirmed is the error if no process has reported the end of its work: none if the command
// does not wait for reports.
func (r *Request) unconfirmed() error {
	if r.Wait == 0 {
		return nil
	}
	return cli.ErrFindings
}

// working returns the processes that have not stopped.
func (s Subject) working(ctx context.Context, stopped []string) ([]string, error) {
	switch {
	case s.Working != nil:
		return s.Working(ctx, stopped)
	case len(stopped) == 0:
		return []string{"the leader"}, nil
	}
	return nil, nil
}

func orNone(names []string) string { return cmp.Or(strings.Join(names, ", "), "none") }

// Resume ends the pause.
func (s Subject) Resume(ctx context.Context, flags cli.Change) error {
	before, err := s.Store.Get(ctx)
	if err != nil {
		return err
	}
	if before == nil {
		return fmt.Errorf("%s is not paused", s.Name)
	}
	what := fmt.Sprintf("resume %s, which %s paused at %s: %s", s.Name, before.Who, cli.Time(before.At), before.Why)
	if err := s.Change(ctx, flags, what, func(ctx context.Context) (map[string]int64, error) {
		_, err := s.Store.End(ctx)
		return nil, err
	}); err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "%s is resumed\n", s.Name)
	return nil
}

// Conditions says that the service is paused, for the verdict on its health; none if it is
// not.
func (p *Pause) Conditions(service string) []health.Condition {
	if p == nil {
		return nil
	}
	return []health.Condition{{
		Name: "paused", State: health.Degraded, Since: p.At,
		Text:   fmt.Sprintf("the %s is paused by %s: %s", service, p.Who, p.Why),
		Remedy: fmt.Sprintf("\"%s resume\" ends the pause.", service),
	}}
}

// String formats since when, by whom and why the service is paused.
func (p *Pause) String() string {
	if p == nil {
		return "no"
	}
	text := fmt.Sprintf("since %s by %s: %s", cli.Time(p.At), p.Who, p.Why)
	if len(p.Stopped) > 0 {
		text += " (stopped: " + strings.Join(p.Stopped, ", ") + ")"
	}
	return text
}
