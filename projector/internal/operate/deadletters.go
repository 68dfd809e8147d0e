package operate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/sbus"
	"github.com/penstock-cdc/penstock/projector/internal/catalog"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/deadletter"
	"github.com/penstock-cdc/penstock/projector/internal/model"
	"github.com/penstock-cdc/penstock/projector/internal/park"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/readmodel"
)

// deadlettersCommands are the commands about the dead letters of the subscription.
type deadlettersCommands struct {
	List    deadlettersListCommand    `cmd:"" help:"List the dead letters of the subscription with their aggregates, and what to do with each. It locks no message."`
	Discard deadlettersDiscardCommand `cmd:"" help:"Remove dead letters permanently. The events stay in the event store, and parked aggregates stay parked."`
}

// deadlettersFilter are the flags that choose dead letters.
type deadlettersFilter struct {
	Reason    string `name:"reason" placeholder:"REASON" help:"Only messages that were dead-lettered for this reason, such as InvalidMessageFormat or MaxDeliveryCountExceeded."`
	Aggregate string `name:"aggregate" placeholder:"ID" help:"Only messages of this aggregate."`
	Sequence  int64  `name:"sequence-number" placeholder:"NUMBER" help:"Only the message with this sequence number."`
	Limit     int    `name:"limit" default:"1000" help:"How many messages at the front of the queue are read, 1 to 10000."`
}

// maxDeadLetters bounds --limit.
const maxDeadLetters = 10_000

func (deadlettersFilter) needs() config.Part {
	return config.PartMongoDB | config.PartServiceBus | config.PartFields
}

// Validate checks the flags for the commands that embed them. kong calls it.
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
	// Parked are the projections in which the aggregate is parked.
	Parked []string `json:"parked"`
	// Applied says that every read model of the subscription has the event.
	Applied bool `json:"applied"`
	// Next says what to do with the message.
	Next string `json:"next"`
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

// peekTimeout bounds peeking at the queue, and a status with it.
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
	reader := event.NewReader(e.Config.EventFields())
	found = []deadLetter{}
	looking, cancel := context.WithTimeout(ctx, peekTimeout)
	defer cancel()
	bounded, err := deadletter.Peek(looking, q, f.Limit, func(m *deadletter.Message) {
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
	if bounded {
		fmt.Fprintf(e.stderr, "read %s, up to --limit or 16 MiB; the queue can have more\n", cli.Count(int64(total), "dead letter"))
	}
	entries, err := s.entries(ctx)
	if err != nil {
		return nil, 0, err
	}
	// Other pipelines can have an aggregate with the same id. Their markers keep no message of
	// this subscription.
	others := namesOf(entries, func(entry *catalog.Entry) bool { return entry.Pipeline != e.Config.Pipeline().String() })
	states, err := s.aggregateStates(ctx, found, entries, others)
	if err != nil {
		return nil, 0, err
	}
	for i := range found {
		if d := &found[i]; d.Problem != "" {
			d.Next = "deadletters discard: it is not an event"
		} else {
			d.describe(states[d.aggregate()])
		}
	}
	return found, total, nil
}

// aggregateKey identifies an aggregate for a projection, which takes the events of some types.
type aggregateKey struct{ aggregateType, id string }

func (d *deadLetter) aggregate() aggregateKey { return aggregateKey{d.AggregateType, d.AggregateID} }

// aggregateState is what the read models of the subscription have of an aggregate.
type aggregateState struct {
	// parked are the projections in which the aggregate is parked.
	parked []string
	// watermark is the last event that every read model has.
	watermark int64
}

// aggregateStates reads the states of the aggregates of dead letters. others are the projections
// of other pipelines. A retired projection needs no events, so none is missing in it.
func (s *stored) aggregateStates(ctx context.Context, letters []deadLetter, entries map[string]*catalog.Entry, others []string) (map[aggregateKey]*aggregateState, error) {
	states := map[aggregateKey]*aggregateState{}
	var ids []string
	for i := range letters {
		if d := &letters[i]; d.Problem == "" {
			states[d.aggregate()] = &aggregateState{}
			ids = append(ids, d.AggregateID)
		}
	}
	if len(ids) == 0 {
		return states, nil
	}
	// The markers have no index for an aggregate, so one search is for all.
	markers, err := s.markers(ctx, park.Filter{Among: ids, Except: others})
	if err != nil {
		return nil, err
	}
	parked := map[string][]string{}
	for _, m := range markers {
		if entries[m.Projection] == nil || entries[m.Projection].RetiredAt == nil {
			parked[m.AggregateID] = append(parked[m.AggregateID], m.Projection)
		}
	}
	// Without a projection, the subscription is most likely another one.
	watermark := int64(math.MinInt64)
	if len(others) < len(entries) {
		watermark = math.MaxInt64
	}
	var units []model.Unit
	var of []*aggregateState
	for name, entry := range entries {
		if entry.RetiredAt != nil || slices.Contains(others, name) {
			continue
		}
		if entry.Live == nil || entry.Live.Frozen {
			watermark = math.MinInt64 // its first build or a promotion is under way
			continue
		}
		scope, err := projection.ScopeOf(entry.Live.Text)
		if err != nil {
			return nil, err
		}
		for key, state := range states {
			if scope.Concerns(key.aggregateType) {
				units = append(units, model.Unit{Projection: name, Generation: entry.Live.Generation, Collection: entry.Live.Collection, AggregateID: key.id, Parts: scope.View, FromZero: s.environment.Config.Fields.FromZero()})
				of = append(of, state)
			}
		}
	}
	for id, names := range parked {
		slices.Sort(names)
		parked[id] = slices.Compact(names)
	}
	for key, state := range states {
		state.parked, state.watermark = parked[key.id], watermark
	}
	watermarks, err := readmodel.Watermarks(ctx, s.ReadModels, units)
	if err != nil {
		return nil, err
	}
	for i, state := range of {
		state.watermark = min(state.watermark, watermarks[i])
	}
	return states, nil
}

// describeDeadLetter reads the event of a message.
func describeDeadLetter(m *deadletter.Message, reader *event.Reader) deadLetter {
	d := deadLetter{Sequence: m.Sequence, Reason: m.Reason, Parked: []string{}}
	document, err := event.DecodeBody(m.ContentType, m.Body)
	if err == nil {
		var ev event.Event
		ev, err = reader.Read(document)
		d.AggregateID, d.AggregateType, d.EventID, d.EventType = ev.AggregateID, ev.AggregateType, ev.EventID, ev.EventType
	}
	if err != nil {
		d.Problem = err.Error()
	}
	return d
}

// describe says what to do with a dead letter that is an event.
func (d *deadLetter) describe(state *aggregateState) {
	d.Parked = append(d.Parked, state.parked...)
	d.Applied = state.watermark >= d.EventID
	switch {
	case d.Applied:
		d.Next = "deadletters discard --applied: every read model has the event"
	case len(d.Parked) > 0:
		d.Next = "parked retry, then deadletters discard --applied: the aggregate is parked"
	default:
		d.Next = "wait for the next sweep (PENSTOCK_RECONCILE) or use verify --repair, then deadletters discard --applied"
	}
}

type deadlettersListCommand struct {
	deadlettersFilter
	cli.Output
}

func (c *deadlettersListCommand) runOn(ctx context.Context, e *Environment, s *stored) error {
	return e.withDeadLetters(ctx, func(q deadletter.Queue) error {
		found, total, err := c.choose(ctx, e, s, q)
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
			if d.EventID != 0 || d.Problem == "" {
				event = fmt.Sprintf("%d %s", d.EventID, d.EventType)
			}
			return []cli.Field{
				{Name: "sequence", Text: strconv.FormatInt(d.Sequence, 10)},
				{Name: "reason", Text: d.Reason},
				{Name: "aggregate", Text: d.AggregateID},
				{Name: "event", Text: event},
				{Name: "parked in", Text: strings.Join(d.Parked, ", ")},
				{Name: "next", Text: d.Next},
			}
		})
	})
}

type deadlettersDiscardCommand struct {
	deadlettersFilter
	Applied    bool `name:"applied" help:"Only messages whose event every read model has."`
	cli.Change `set:"why=required"`
}

// Validate checks the flags. kong calls it.
func (c *deadlettersDiscardCommand) Validate() error {
	p := cli.Problems{c.deadlettersFilter.Validate(), c.RequireWhy("say why the messages are removed; the reason is kept in the audit")}
	p.Require(c.Reason != "" || c.Aggregate != "" || c.Sequence != 0 || c.Applied, "no message is chosen: use --applied, --sequence-number, --aggregate or --reason")
	return errors.Join(p...)
}

func (c *deadlettersDiscardCommand) runOn(ctx context.Context, e *Environment, s *stored) error {
	return e.withDeadLetters(ctx, func(q deadletter.Queue) error {
		found, err := c.chooseSome(ctx, e, s, q)
		if err != nil || len(found) == 0 {
			return err
		}
		if c.Applied {
			if found = slices.DeleteFunc(found, func(d deadLetter) bool { return !d.Applied }); len(found) == 0 {
				return errNoDeadLetterMatches
			}
		}
		sequences := make(map[int64]bool, len(found))
		for _, d := range found {
			sequences[d.Sequence] = true
		}
		removed := 0
		what := fmt.Sprintf("permanently remove %s of subscription %s of topic %s", cli.Count(int64(len(found)), "dead letter"), e.Config.ServiceBus.Subscription, e.Config.ServiceBus.Topic)
		err = s.change(ctx, c.Change, what, func(ctx context.Context) (map[string]int64, error) {
			var err error
			removed, err = deadletter.Remove(ctx, q, sequences, e.Logger)
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
