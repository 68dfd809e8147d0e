package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/deadletter"
	"github.com/penstock-cdc/penstock/projector/internal/generation"
	"github.com/penstock-cdc/penstock/projector/internal/park"
)

// deadlettersCommands are the commands about the dead letters of the subscription.
type deadlettersCommands struct {
	List     deadlettersListCommand     `cmd:"" help:"List the dead letters of the subscription with their aggregates, and what becomes of each. It locks no message."`
	Resubmit deadlettersResubmitCommand `cmd:"" help:"Bring the read models of the aggregates up to date from the event store, parked ones too, and then remove the dead letters whose event every read model has. Nothing is sent to the topic, because its other subscriptions would get it as well."`
	Discard  deadlettersDiscardCommand  `cmd:"" help:"Remove dead letters permanently. The events stay in the event store, and parked aggregates stay parked."`
}

// deadlettersFilter are the flags that choose dead letters.
type deadlettersFilter struct {
	Reason    string `name:"reason" placeholder:"REASON" help:"Only messages that were dead-lettered for this reason, such as expression or MaxDeliveryCountExceeded."`
	Aggregate string `name:"aggregate" placeholder:"ID" help:"Only messages of this aggregate."`
	Sequence  int64  `name:"sequence-number" placeholder:"NUMBER" help:"Only the message with this sequence number."`
	Limit     int    `name:"limit" default:"1000" help:"How many messages at the front of the queue are read, 1 to 10000."`
}

// maxDeadLetters bounds the messages that a command reads.
const maxDeadLetters = 10_000

func (deadlettersFilter) needs() config.Part {
	return config.PartMongoDB | config.PartServiceBus | config.PartFields
}

// Validate implements [cli.Validator] for the commands that embed the flags.
func (f deadlettersFilter) Validate() error {
	return cli.Choice[string]{Limit: f.Limit, Max: maxDeadLetters}.Validate()
}

// deadLetter is a dead letter as the commands print it.
type deadLetter struct {
	Sequence int64  `json:"sequence"`
	Reason   string `json:"reason"`
	// The fields of the event are empty if the message has no event; Problem says why.
	AggregateID   string `json:"aggregateId,omitempty"`
	AggregateType string `json:"aggregateType,omitempty"`
	EventID       int64  `json:"eventId,omitempty"`
	EventType     string `json:"eventType,omitempty"`
	Problem       string `json:"problem,omitempty"`
	// Parked are the projections in which the aggregate is parked, and Discarded those of them
	// in which it is discarded.
	Parked    []string `json:"parked"`
	Discarded []string `json:"discarded"`
	// Next says what will happen to the message.
	Next string `json:"next"`

	// raw is the aggregate's id with its type, and markers are the aggregate's parked
	// markers.
	raw     bson.RawValue
	markers []park.Listed
}

// withDeadLetters calls do with the dead-letter queue of the subscription.
func (e *Environment) withDeadLetters(ctx context.Context, do func(q deadletter.Queue) error) error {
	namespace, err := sbus.Open(e.Config.ServiceBus.Config)
	if err != nil {
		return err
	}
	queue, err := deadletter.Dial(sbus.Subscription{Topic: e.Config.ServiceBus.Topic, Name: e.Config.ServiceBus.Subscription, NewClient: namespace.NewClient})()
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if err := queue.Close(closing); err != nil {
			e.Logger.Debug().Err(err).Msg("connection to the dead-letter queue not closed cleanly")
		}
	}()
	return do(queue)
}

// closeTimeout bounds closing the connection to the dead-letter queue.
const closeTimeout = 2 * time.Second

// peekTimeout bounds reading the queue, and removing from it.
const peekTimeout = time.Minute

// errNoDeadLetterMatches is returned if the queue has messages, but the flags choose none.
var errNoDeadLetterMatches = errors.New("no dead letter matches: see \"projector deadletters list\"")

// chooseSome is choose for a command that changes what it chooses. It fails with
// [errNoDeadLetterMatches], and returns none if the queue is empty.
func (f deadlettersFilter) chooseSome(ctx context.Context, e *Environment, s *stored, q deadletter.Queue) ([]deadLetter, error) {
	found, total, err := f.choose(ctx, e, s, q)
	switch {
	case err != nil || len(found) > 0:
		return found, err
	case total > 0:
		return nil, errNoDeadLetterMatches
	}
	fmt.Fprintln(e.stderr, "no dead letters")
	return nil, nil
}

// choose lists the dead letters that the flags choose. total also counts the other messages
// that were read.
func (f deadlettersFilter) choose(ctx context.Context, e *Environment, s *stored, q deadletter.Queue) (found []deadLetter, total int, err error) {
	reader, err := event.NewReader(e.Config.Fields)
	if err != nil {
		return nil, 0, err
	}
	found = []deadLetter{}
	err = deadletter.Peek(ctx, q, f.Limit, func(m *deadletter.Message) {
		total++
		d := describeDeadLetter(m, reader)
		if f.Reason != "" && d.Reason != f.Reason || f.Aggregate != "" && d.AggregateID != f.Aggregate || f.Sequence != 0 && d.Sequence != f.Sequence {
			return
		}
		found = append(found, d)
	})
	if err != nil {
		return nil, 0, fmt.Errorf("read the dead letters of subscription %s of topic %s: %w", e.Config.ServiceBus.Subscription, e.Config.ServiceBus.Topic, err)
	}
	entries, err := s.entries(ctx)
	if err != nil {
		return nil, 0, err
	}
	// Other pipelines can have an aggregate with the same id. Their markers keep no message of
	// this subscription.
	others := namesOf(entries, func(entry *generation.Entry) bool { return entry.Pipeline != e.Config.Pipeline().String() })
	known := map[string][]park.Listed{}
	for i := range found {
		d := &found[i]
		if _, asked := known[d.AggregateID]; d.AggregateID != "" && !asked {
			markers, err := s.markers(ctx, park.Filter{AggregateID: d.AggregateID, Except: others})
			if err != nil {
				return nil, 0, err
			}
			known[d.AggregateID] = markers
		}
		d.judge(known[d.AggregateID], entries)
	}
	return found, total, nil
}

// describeDeadLetter reads the event of a message.
func describeDeadLetter(m *deadletter.Message, reader *event.Reader) deadLetter {
	d := deadLetter{Sequence: m.Sequence, Reason: m.Reason, Parked: []string{}, Discarded: []string{}}
	document, err := event.DecodeBody(m.ContentType, m.Body)
	if err == nil {
		var ev event.Event
		ev, err = reader.Read(document)
		d.AggregateID, d.AggregateType, d.EventID, d.EventType = ev.AggregateID, ev.AggregateType, ev.EventID, ev.EventType
		d.raw = bson.RawValue{Type: ev.RawAggregateID.Type, Value: slices.Clone(ev.RawAggregateID.Value)}
	}
	if err != nil {
		d.Problem = err.Error()
	}
	return d
}

// judge decides what will happen to a dead letter, given the markers of its aggregate and the
// catalog. A retired projection needs no events, so none is missing in it. The reconciler keeps
// the messages of parked aggregates, also if their markers are discarded.
func (d *deadLetter) judge(markers []park.Listed, entries map[string]*generation.Entry) {
	d.markers = markers
	waits, discarded := false, false
	for _, m := range markers {
		d.Parked = append(d.Parked, m.Projection)
		if m.Discarded != nil {
			d.Discarded = append(d.Discarded, m.Projection)
		}
		if entries[m.Projection] == nil || entries[m.Projection].RetiredAt == nil {
			waits = waits || m.Discarded == nil
			discarded = discarded || m.Discarded != nil
		}
	}
	slices.Sort(d.Parked)
	slices.Sort(d.Discarded)
	d.Parked, d.Discarded = slices.Compact(d.Parked), slices.Compact(d.Discarded)
	healable := slices.Contains(Healable(), d.Reason)
	switch {
	case d.Problem != "":
		d.Next = "deadletters discard: it is not an event"
	case !healable && discarded:
		d.Next = "deadletters discard, or parked retry --discarded and then deadletters resubmit: the aggregate is discarded, and neither Penstock nor the broker uses the reason"
	case !healable:
		d.Next = "deadletters resubmit or discard: neither Penstock nor the broker uses its reason"
	case waits && discarded:
		d.Next = "parked retry and parked retry --discarded, or deadletters discard: the message stays until the aggregate is parked in no projection"
	case discarded:
		d.Next = "deadletters discard, or parked retry --discarded: the message stays while the aggregate is discarded"
	case waits:
		d.Next = "parked retry; the message is removed by itself after that"
	default:
		d.Next = "none: the message is removed by itself when every read model has the event (PENSTOCK_RECONCILE)"
	}
}

// parkedIn names the projections in which the aggregate is parked.
func (d *deadLetter) parkedIn() string {
	names := slices.Clone(d.Parked)
	for i, name := range names {
		if slices.Contains(d.Discarded, name) {
			names[i] += " (discarded)"
		}
	}
	return strings.Join(names, ", ")
}

type deadlettersListCommand struct {
	deadlettersFilter
	cli.Output
}

func (c *deadlettersListCommand) runOn(ctx context.Context, e *Environment, s *stored) error {
	return e.withDeadLetters(ctx, func(q deadletter.Queue) error {
		looking, cancel := mongox.Timeout(ctx, peekTimeout)
		defer cancel()
		found, total, err := c.choose(looking, e, s, q)
		switch {
		case err != nil:
			return err
		case total == 0:
			fmt.Fprintln(e.stderr, "no dead letters")
		case len(found) == 0:
			fmt.Fprintf(e.stderr, "none of %s matches\n", cli.Count(int64(total), "dead letter"))
		}
		return cli.List(e.stdout, c.Output, found, func(d deadLetter) []cli.Field {
			event := ""
			if d.EventID != 0 {
				event = fmt.Sprintf("%d %s", d.EventID, d.EventType)
			}
			return []cli.Field{
				{Name: "sequence", Text: strconv.FormatInt(d.Sequence, 10)},
				{Name: "reason", Text: d.Reason},
				{Name: "aggregate", Text: d.AggregateID},
				{Name: "event", Text: event},
				{Name: "parked in", Text: d.parkedIn()},
				{Name: "next", Text: d.Next},
			}
		})
	})
}

type deadlettersDiscardCommand struct {
	deadlettersFilter
	cli.Change `set:"why=required"`
}

// Validate implements [cli.Validator].
func (c *deadlettersDiscardCommand) Validate() error {
	p := cli.Problems{c.deadlettersFilter.Validate(), c.RequireWhy("say why the messages are removed; the reason is kept in the audit")}
	p.Require(c.Reason != "" || c.Aggregate != "" || c.Sequence != 0, "no message is chosen: use --sequence-number, --aggregate or --reason")
	return errors.Join(p...)
}

func (c *deadlettersDiscardCommand) runOn(ctx context.Context, e *Environment, s *stored) error {
	return e.withDeadLetters(ctx, func(q deadletter.Queue) error {
		looking, cancel := mongox.Timeout(ctx, peekTimeout)
		found, err := c.chooseSome(looking, e, s, q)
		cancel()
		if err != nil || len(found) == 0 {
			return err
		}
		sequences := make(map[int64]bool, len(found))
		for _, d := range found {
			sequences[d.Sequence] = true
		}
		removed := 0
		what := fmt.Sprintf("permanently remove %s of subscription %s of topic %s", cli.Count(int64(len(found)), "dead letter"), e.Config.ServiceBus.Subscription, e.Config.ServiceBus.Topic)
		err = s.change(ctx, c.Change, what, func(ctx context.Context) (map[string]int64, error) {
			removing, cancel := mongox.Timeout(ctx, peekTimeout)
			defer cancel()
			var err error
			removed, err = deadletter.Remove(removing, q, sequences, c.Limit, e.Logger)
			return map[string]int64{"removed": int64(removed)}, err
		})
		if err != nil {
			return err
		}
		if err := e.print("result", fmt.Sprintf("removed %s\n", cli.Count(int64(removed), "dead letter"))); err != nil {
			return err
		}
		if removed < len(found) {
			fmt.Fprintf(e.stderr, "%d stay: another receiver has locked or removed them; try again\n", len(found)-removed)
			return cli.ErrFindings
		}
		return nil
	})
}
