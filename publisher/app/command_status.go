package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/health"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
	"github.com/penstock-cdc/penstock/publisher/internal/quarantine"
	"github.com/penstock-cdc/penstock/publisher/internal/term"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

// statusCommand shows the state of publishing. It reads the stores alone and asks no
// process.
type statusCommand struct{ cli.Output }

func (*statusCommand) validate(c *config.Config) error { return c.Check() }

// status is the state of publishing. A nil field is unknown; Unknown has the reason.
type status struct {
	Stream string `json:"stream"`
	// Verdict is the verdict of the processes, together with what the command finds itself.
	health.Verdict
	// Leader is the holder of the lease; empty if no process leads.
	Leader        string          `json:"leader"`
	LeaderRenewed *time.Time      `json:"leaderRenewedAt,omitempty"`
	Checkpoint    *checkpointView `json:"checkpoint,omitempty"`
	// LagSeconds is how far the checkpoint is behind the event store's cluster time.
	LagSeconds *int64 `json:"lagSeconds,omitempty"`
	// RunwaySeconds is how far the oplog reaches back before the checkpoint. OplogComplete
	// says that the oplog has dropped nothing, so a short runway is no danger.
	RunwaySeconds *int64 `json:"oplogRunwaySeconds,omitempty"`
	OplogComplete bool   `json:"oplogComplete,omitempty"`
	// Quarantined is the number of records in the quarantine, counted up to 10,000.
	Quarantined     *int64 `json:"quarantined,omitempty"`
	TopicBytes      *int64 `json:"topicBytes,omitempty"`
	TopicLimitBytes *int64 `json:"topicLimitBytes,omitempty"`
	// Subscriptions are the topic's subscriptions; nil if their counts are unknown.
	Subscriptions []subscriptionCounts `json:"subscriptions,omitempty"`
	Unknown       map[string]string    `json:"unknown,omitempty"`
}

func (c *statusCommand) runOn(ctx context.Context, e *environment, s *stores) error {
	now := time.Now()
	found := collectStatus(ctx, e.options, s, now)
	if err := cli.Show(e.stdout, c.Output, found, found.fields(now)); err != nil {
		return err
	}
	if found.Leader == "" {
		return cli.ErrFindings
	}
	return nil
}

// collectStatus collects the status. A value that cannot be read is unknown, with the reason.
func collectStatus(ctx context.Context, o Options, s *stores, now time.Time) status {
	c := o.Config
	found := status{Stream: c.Stream.Name, Unknown: make(map[string]string)}
	note := func(what string, err error) bool {
		if err != nil {
			found.Unknown[what] = err.Error()
		}
		return err == nil
	}
	holder, err := readHolder(ctx, c, s.state)
	if note("leader", err) && holder.Identity != "" && !holder.Expired {
		found.Leader, found.LeaderRenewed = holder.Identity, &holder.RenewedAt
	}
	read, err := readCheckpoint(ctx, s, c)
	if note("checkpoint", err) && read != nil {
		view := viewCheckpoint(c.Stream.Name, read)
		found.Checkpoint = &view
		if !view.At.IsZero() {
			found.LagSeconds = seconds(max(now.Sub(view.At), 0))
		}
		if at := watch.TimeOf(term.StreamPosition(read.Position)); !at.IsZero() {
			begin, err := oplogBegin(ctx, s)
			if note("oplogRunwaySeconds", err) {
				found.RunwaySeconds, found.OplogComplete = seconds(at.Sub(begin.Time())), begin.Complete
			}
		}
	}
	counting, cancel := mongox.Timeout(ctx, attemptTimeout)
	defer cancel()
	records, err := quarantine.NewRecords(s.state, c.Stream.Name).Count(counting, quarantineLimit)
	if note("quarantined", err) {
		found.Quarantined = &records
	}
	namespace, err := sbus.Open(c.ServiceBus)
	note("subscriptions", err)
	if note("topicBytes", err) {
		asking, cancel := context.WithTimeout(ctx, topicTimeout)
		defer cancel()
		size, limit, err := fill(asking, namespace, c.ServiceBus.Topic)
		if note("topicBytes", err) {
			found.TopicBytes, found.TopicLimitBytes = &size, &limit
		}
		found.Subscriptions, err = countSubscriptions(ctx, namespace, c.ServiceBus.Topic)
		note("subscriptions", err)
	}
	reports, err := health.NewReports(s.state, "publisher", c.Stream.Name).List(ctx)
	note("health", err)
	var own []string
	if found.Quarantined != nil {
		own = append(own, "quarantined")
	}
	found.Verdict = health.Together(found.conditions(), reports, own...)
	return found
}

func seconds(d time.Duration) *int64 {
	n := int64(d / time.Second)
	return &n
}

// readCheckpoint reads the checkpoint of the configured stream; nil if there is none.
func readCheckpoint(ctx context.Context, s *stores, c config.Config) (*checkpoint.State, error) {
	ctx, cancel := mongox.Timeout(ctx, attemptTimeout)
	defer cancel()
	read, err := checkpoint.NewStore(checkpoint.Checkpoints(s.state), c.Stream.Name, checkpoint.Options{}).Read(ctx)
	return read, mongox.Explain(ctx, err)
}

// oplogBegin is the beginning of the oplog of the event store.
func oplogBegin(ctx context.Context, s *stores) (mongox.OplogBegin, error) {
	ctx, cancel := mongox.Timeout(ctx, attemptTimeout)
	defer cancel()
	begin, err := mongox.ReadOplogBegin(ctx, s.events.Database().Client())
	return begin, mongox.Explain(ctx, err)
}

// checkpointView is a checkpoint as the commands print it.
type checkpointView struct {
	Stream string `json:"stream"`
	Epoch  int64  `json:"epoch"`
	Holder string `json:"holder"`
	// SavedAt is when it was saved. Everything before the cluster time At is published; zero if
	// that is not known, and while a scan runs.
	SavedAt time.Time `json:"savedAt"`
	At      time.Time `json:"at,omitzero"`
	// Position describes what the next term does first.
	Position string `json:"position"`
	Database string `json:"database,omitempty"`
	// Collection and Topic belong to the pipeline that the checkpoint records.
	Collection string `json:"collection,omitempty"`
	Topic      string `json:"topic,omitempty"`
}

func viewCheckpoint(stream string, read *checkpoint.State) checkpointView {
	v := checkpointView{
		Stream: stream, Epoch: read.Epoch, Holder: read.Holder, SavedAt: read.UpdatedAt,
		Position: describe(read.Position),
	}
	if !read.Position.Scan.Active() {
		v.At = watch.TimeOf(term.StreamPosition(read.Position))
	}
	if id := read.Identity; id != nil {
		v.Database, v.Collection, v.Topic = id.Database, id.Collection, id.Namespace+"/"+id.Topic
	}
	return v
}

// place says where the checkpoint is.
func (v checkpointView) place() string {
	if v.At.IsZero() {
		return v.Position
	}
	return v.Position + ", published up to " + cli.Time(v.At)
}

// describe returns what a term does first at a position.
func describe(p checkpoint.Position) string {
	switch {
	case p.IsZero():
		return "none: the next term starts at PENSTOCK_START"
	case p.Scan.Active() && p.Scan.AggregateID.Type == 0:
		return "scan of the event store from the beginning"
	case p.Scan.Active():
		return fmt.Sprintf("scan of the event store after event %s of aggregate %s", strconv.FormatInt(p.Scan.EventID, 10), p.Scan.AggregateID)
	case len(p.Token) > 0:
		return "change stream after a token"
	}
	return "change stream from a time"
}

// fields returns the lines of a status, with one for each condition and each subscription.
func (s *status) fields(now time.Time) []cli.Field {
	var fields []cli.Field
	add := func(name, text string) { fields = append(fields, cli.Field{Name: name, Text: text}) }
	known := func(what, text string) string {
		if reason := s.Unknown[what]; reason != "" {
			return "unknown: " + reason
		}
		return text
	}
	seconds := func(s *int64) string {
		if s == nil {
			return ""
		}
		return poll.Duration(time.Duration(*s) * time.Second)
	}
	add("stream", s.Stream)
	add("health", string(s.State))
	for _, c := range s.Conditions {
		add(c.Title(), c.Detail())
	}
	leads := cmp.Or(s.Leader, "nobody")
	if s.LeaderRenewed != nil {
		leads += ", renewed " + cli.Age(now, *s.LeaderRenewed) + " ago"
	}
	add("leader", known("leader", leads))
	if c := s.Checkpoint; c != nil {
		add("epoch", strconv.FormatInt(c.Epoch, 10))
		add("checkpoint", c.Position)
		add("checkpoint saved", cli.Age(now, c.SavedAt)+" ago")
		add("published up to", cli.Time(c.At))
		add("holder of the checkpoint", c.Holder)
		if c.Collection != "" {
			add("pipeline of the checkpoint", c.Database+"."+c.Collection+" to "+c.Topic)
		}
	} else {
		add("checkpoint", known("checkpoint", "none yet"))
	}
	add("lag", seconds(s.LagSeconds))
	runway := seconds(s.RunwaySeconds)
	if s.OplogComplete {
		runway += ", all of the oplog: it has dropped nothing yet"
	}
	add("oplog runway", known("oplogRunwaySeconds", runway))
	quarantined, topic := "", ""
	if s.Quarantined != nil {
		quarantined = strconv.FormatInt(*s.Quarantined, 10)
	}
	add("quarantined", known("quarantined", quarantined))
	if s.TopicBytes != nil {
		topic = fmt.Sprintf("%d of %d bytes", *s.TopicBytes, *s.TopicLimitBytes)
	}
	add("topic size", known("topicBytes", topic))
	for _, counts := range s.Subscriptions {
		add("subscription "+counts.Name, counts.String())
	}
	if len(s.Subscriptions) == 0 {
		add("subscriptions", known("subscriptions", "none: Service Bus drops every message"))
	}
	return fields
}

// errNoCheckpoint is returned if there is no checkpoint to move.
var errNoCheckpoint = errors.New("the stream has no checkpoint yet: the first term makes it")
