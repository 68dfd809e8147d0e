package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
	"github.com/penstock-cdc/penstock/publisher/internal/term"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

// checkpointCommands are the commands about the checkpoint.
type checkpointCommands struct {
	Set     checkpointSetCommand     `cmd:"" help:"Move the checkpoint. A running leader is fenced, and the next term starts at the new position within seconds. Events that are published again are dropped by duplicate detection or by the read models' watermarks; events that are skipped are not published."`
	Release checkpointReleaseCommand `cmd:"" help:"Give the checkpoint to this command's configuration: its event store, topic and session mode. The publisher that refuses the checkpoint of another pipeline names this command. Stop the other pipeline first. Publishing continues at the position, or with a scan if the event store differs."`
}

type checkpointSetCommand struct {
	cli.Change `set:"why=required"`
	Where      string `arg:"" help:"beginning (scan the event store and publish all of it again, then stream), start (the same for a stream that began at now or at a time: older events are left out), now (skip everything up to now), or an RFC 3339 time such as 2026-03-01T00:00:00Z. If the oplog no longer reaches back to that time, the event store is scanned, and events whose timestamp is more than a minute before that time are left out."`
}

// recordedStart is the value of checkpointSetCommand.Where for the start that the checkpoint records.
const recordedStart = "start"

// Validate checks the flags. kong calls it.
func (c *checkpointSetCommand) Validate() error {
	var err error
	if c.Where != recordedStart {
		_, err = config.ParseStartPoint("<where>", c.Where)
	}
	return errors.Join(err, c.RequireWhy("give the reason, because moving a checkpoint skips events or publishes them again"))
}

func (*checkpointSetCommand) validate(c *config.Config) error {
	return errors.Join(c.MongoDB.Check(), c.EventFields().Check())
}

func (c *checkpointSetCommand) runOn(ctx context.Context, e *environment, s *stores) error {
	noting, cancel := mongox.Timeout(ctx, attemptTimeout)
	defer cancel()
	history := eventstore.NewReader(s.events, e.options.Config.EventFields(), e.options.Logger)
	now, err := history.OperationTime(noting)
	if err != nil {
		return mongox.Explain(noting, err)
	}
	if c.Where == recordedStart {
		read, err := readCheckpoint(ctx, s, e.options.Config)
		if err != nil {
			return err
		}
		if read == nil || read.Since.IsZero() {
			return errors.New("the checkpoint records no start, because its stream began at the beginning of the event store: use beginning")
		}
		to := checkpoint.Position{Scan: checkpoint.Scan{OperationTime: now}, ClusterTime: read.Since, Begin: true}
		return moveCheckpoint(ctx, e, s, c.Change, "set checkpoint %s (%s) to the start of its stream, "+cli.Time(time.Unix(int64(read.Since.T), 0))+": the events stored since are published, again if they were before; older ones are left out", to)
	}
	where, err := config.ParseStartPoint("<where>", c.Where)
	if err != nil {
		return err
	}
	to, effect := positionOf(where, now)
	if to.Scan.Active() {
		stored, err := s.events.EstimatedDocumentCount(noting)
		if err != nil {
			return fmt.Errorf("count the events of %s: %w", s.events.Name(), mongox.Explain(noting, err))
		}
		effect = fmt.Sprintf("all events of the store, about %d, are published again", stored)
	}
	return moveCheckpoint(ctx, e, s, c.Change, "set checkpoint %s (%s) to "+where.String()+": "+effect, to)
}

// positionOf returns the position of a start point, and the effect of moving the checkpoint
// there.
func positionOf(where config.StartPoint, now bson.Timestamp) (to checkpoint.Position, effect string) {
	switch {
	case where.Now:
		return checkpoint.Position{ClusterTime: checkpoint.After(now), Begin: true}, "events that are stored and not published yet are skipped"
	case !where.At.IsZero():
		at := bson.Timestamp{T: uint32(where.At.Unix()), I: 1}
		return checkpoint.Position{ClusterTime: at, Begin: true}, "events stored from then on are published, again if they were before"
	}
	return checkpoint.Position{Scan: checkpoint.Scan{OperationTime: now}}, ""
}

// skipped says which events a move to a time skips.
func skipped(from, to checkpoint.Position) string {
	at, until := watch.TimeOf(term.StreamPosition(from)), time.Unix(int64(to.ClusterTime.T), 0)
	switch {
	case to.Scan.Active(), from.IsZero():
		return ""
	case from.Scan.Active():
		return "; the events that the scan has not reached and that were stored before " + cli.Time(until) + " are skipped: they are never published"
	case at.IsZero():
		return "; if the position is before " + cli.Time(until) + ", the events stored between the two are skipped: they are never published"
	case until.After(at):
		return "; the events stored between " + cli.Time(at) + " and " + cli.Time(until) + " are skipped: they are never published"
	}
	return ""
}

// moveCheckpoint asks for confirmation and moves the checkpoint. what is a format with
// places for the stream and for the present position.
func moveCheckpoint(ctx context.Context, e *environment, s *stores, flags cli.Change, what string, to checkpoint.Position) error {
	stream := e.options.Config.Stream.Name
	read, err := readCheckpoint(ctx, s, e.options.Config)
	if err != nil {
		return err
	}
	if read == nil {
		return fmt.Errorf("stream %s: %w; set PENSTOCK_START instead", stream, errNoCheckpoint)
	}
	if err := refuseOther(ctx, e.options.Config, s, read); err != nil {
		return err
	}
	what = fmt.Sprintf(what, stream, viewCheckpoint(stream, read).place()) + skipped(read.Position, to)
	identifying, cancel := mongox.Timeout(ctx, attemptTimeout)
	defer cancel()
	id, err := mongox.IdentifyCollection(identifying, s.events)
	if err != nil {
		return mongox.Explain(identifying, err)
	}
	to.CollectionUUID = id.UUID
	err = e.change(ctx, s, flags, what, func(ctx context.Context) (map[string]int64, error) {
		moving, cancel := mongox.Timeout(ctx, attemptTimeout)
		defer cancel()
		store := checkpoint.NewStore(checkpoint.Checkpoints(s.state), stream, checkpoint.Options{})
		err := mongox.Explain(moving, store.Move(moving, read, flags.Person(), to))
		if errors.Is(err, checkpoint.ErrMoved) {
			err = fmt.Errorf("%w, so nothing was changed; look at \"publisher status\", and repeat the command", err)
		}
		return map[string]int64{"epoch": read.Epoch + 1}, err
	})
	if err != nil {
		return err
	}
	next := "a running leader is fenced at its next save, within " + (e.options.Config.Publish.CheckpointInterval + 10*time.Second).String() + ", and the next term starts there"
	fmt.Fprintf(e.stdout, "checkpoint %s is at: %s; %s\n", stream, describe(to), next)
	return nil
}

type checkpointReleaseCommand struct {
	cli.Change `set:"why=required"`
}

// Validate implements [cli.Validator].
func (c *checkpointReleaseCommand) Validate() error {
	return c.RequireWhy("give the reason, because the former pipeline can no longer publish")
}

func (*checkpointReleaseCommand) validate(c *config.Config) error {
	return errors.Join(c.MongoDB.Check(), c.ServiceBus.Check())
}

func (c *checkpointReleaseCommand) runOn(ctx context.Context, e *environment, s *stores) error {
	stream := e.options.Config.Stream.Name
	read, err := readCheckpoint(ctx, s, e.options.Config)
	if err != nil {
		return err
	}
	if read == nil {
		return fmt.Errorf("stream %s: %w", stream, errNoCheckpoint)
	}
	here, _, err := term.Identify(ctx, e.options.Config, s.events.Database().Client())
	if err != nil {
		return err
	}
	var differences []checkpoint.Difference
	if read.Identity != nil {
		differences = read.Identity.Differences(here)
	}
	if len(differences) == 0 {
		fmt.Fprintf(e.stdout, "checkpoint %s belongs to this pipeline already\n", stream)
		return nil
	}
	other := &checkpoint.OtherPipelineError{Stream: stream, Differences: differences}
	err = e.change(ctx, s, c.Change, "release to this pipeline: "+other.Error(), func(ctx context.Context) (map[string]int64, error) {
		releasing, cancel := mongox.Timeout(ctx, attemptTimeout)
		defer cancel()
		store := checkpoint.NewStore(checkpoint.Checkpoints(s.state), stream, checkpoint.Options{})
		return map[string]int64{"epoch": read.Epoch + 1}, mongox.Explain(releasing, store.Release(releasing, read, c.Person(), here))
	})
	if err == nil {
		fmt.Fprintf(e.stdout, "checkpoint %s belongs to this pipeline now\n", stream)
	}
	return err
}
