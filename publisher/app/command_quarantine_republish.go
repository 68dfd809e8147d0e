package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
	"github.com/penstock-cdc/penstock/publisher/internal/quarantine"
	"github.com/penstock-cdc/penstock/publisher/internal/term"
)

type quarantineRepublishCommand struct {
	quarantineFilter
	publishRate
	cli.Change
	cli.Output
}

// Validate checks the flags. kong calls it.
func (c *quarantineRepublishCommand) Validate() error {
	return errors.Join(c.quarantineFilter.Validate(), c.publishRate.Validate())
}

func (*quarantineRepublishCommand) validate(c *config.Config) error { return c.Check() }

// healed is a record whose event can be published now. It does not hold the event, because
// all events together can exceed the memory of a pod in which the command runs.
type healed struct {
	record quarantine.Record
	keys   event.Keys
}

// staying is a record that stays in the quarantine.
type staying struct {
	Document    string `json:"document"`
	AggregateID string `json:"aggregateId,omitempty"`
	Why         string `json:"why"`
}

func stays(r quarantine.Record, why error) staying {
	return staying{quarantine.DocumentText(r.DocumentID), r.AggregateID, why.Error()}
}

// republished is the result of the command.
type republished struct {
	Published int64     `json:"published"`
	Staying   []staying `json:"staying"`
}

func (c *quarantineRepublishCommand) runOn(ctx context.Context, e *environment, s *stores) error {
	records := e.quarantine(s)
	found, err := c.choose(ctx, e, records)
	if err != nil {
		return err
	}
	events, err := newRereader(ctx, s, e.options.Config.EventFields())
	if err != nil {
		return err
	}
	good, bad, err := events.choose(ctx, found)
	if err != nil {
		return err
	}
	result := republished{Staying: append([]staying{}, bad...)}
	if len(good) > 0 {
		chosen := make([]quarantine.Record, len(good))
		for i, h := range good {
			chosen[i] = h.record
		}
		what := fmt.Sprintf("publish %s%s; %d more stay there", amount(chosen), c.duration(int64(len(good))), len(bad))
		err = e.change(ctx, s, c.Change, what, func(ctx context.Context) (map[string]int64, error) {
			failed, err := republishHealed(ctx, e.options, s, records, events, good, c.publishRate, &result.Published)
			result.Staying = append(result.Staying, failed...)
			return map[string]int64{"published": result.Published, "staying": int64(len(result.Staying))}, err
		})
		if err != nil {
			return err
		}
	}
	return c.report(e, result)
}

func (c *quarantineRepublishCommand) report(e *environment, r republished) error {
	var err error
	if c.JSON() {
		err = cli.PrintJSON(e.stdout, r)
	} else {
		fmt.Fprintf(e.stdout, "%d published, %d stay in the quarantine\n", r.Published, len(r.Staying))
		err = cli.List(e.stdout, c.Output, r.Staying, func(s staying) []cli.Field {
			return []cli.Field{
				{Name: "document", Text: s.Document},
				{Name: "aggregate", Text: s.AggregateID},
				{Name: "why", Text: s.Why},
			}
		})
	}
	switch {
	case err != nil:
		return err
	case r.Published > 0 && !c.JSON():
		fmt.Fprintln(e.stderr, "later events of these aggregates may be on the topic already; the projector restores their order")
	}
	if len(r.Staying) > 0 {
		return cli.ErrFindings
	}
	return nil
}

// rereader reads events of the quarantine from the event store.
type rereader struct {
	events *mongo.Collection
	reader *event.Reader
}

func newRereader(ctx context.Context, s *stores, fields event.Fields) (*rereader, error) {
	history, err := eventstore.NewReader(s.events, fields, zerolog.Nop())
	if err != nil {
		return nil, err
	}
	reader, err := publishersReader(ctx, history, fields)
	return &rereader{s.events, reader}, err
}

// read reads the event of a record. why is the reason if the event cannot be published.
func (r *rereader) read(ctx context.Context, record quarantine.Record) (ev event.Event, why, err error) {
	document, err := readEvent(ctx, r.events, record.DocumentID)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return ev, fmt.Errorf("%w: if a corrected event was inserted instead, it was published like any other, and this record can be discarded", quarantine.ErrGone), nil
	}
	if err != nil {
		return ev, nil, fmt.Errorf("read event %s of %s: %w", quarantine.DocumentText(record.DocumentID), r.events.Name(), err)
	}
	ev, why = r.reader.Read(document)
	return ev, why, nil
}

// choose divides records into those whose events can be published, in the order in which
// they must be published, and the others.
func (r *rereader) choose(ctx context.Context, found []quarantine.Record) (good []healed, bad []staying, err error) {
	for _, record := range found {
		ev, why, err := r.read(ctx, record)
		switch {
		case err != nil:
			return nil, nil, err
		case why != nil:
			bad = append(bad, stays(record, why))
		default:
			good = append(good, healed{record, ev.Keys})
		}
	}
	slices.SortStableFunc(good, func(a, b healed) int {
		return cmp.Or(cmp.Compare(a.keys.AggregateID, b.keys.AggregateID), cmp.Compare(a.keys.EventID, b.keys.EventID))
	})
	return good, bad, nil
}

func readEvent(ctx context.Context, events *mongo.Collection, id bson.RawValue) (bson.Raw, error) {
	ctx, cancel := mongox.Timeout(ctx, attemptTimeout)
	defer cancel()
	document, err := events.FindOne(ctx, bson.D{{Key: "_id", Value: id}}).Raw()
	return document, mongox.Explain(ctx, err)
}

// republishHealed publishes the events, and removes the records of those that the topic has
// taken. It returns the records of the events that the topic refuses, and of those that
// cannot be published any more.
func republishHealed(ctx context.Context, o Options, s *stores, records *quarantine.Records, events *rereader, good []healed, limit publishRate, published *int64) ([]staying, error) {
	epoch, err := currentEpoch(ctx, o, s)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var sent []quarantine.Record
	var refused []staying
	r, err := newRepublisher(ctx, o, epoch, limit, func(ticket uint64, err error) {
		mu.Lock()
		defer mu.Unlock()
		if record := good[ticket].record; err != nil {
			refused = append(refused, stays(record, err))
		} else {
			sent = append(sent, record)
		}
	})
	if err != nil {
		return nil, err
	}
	_, err = r.run(ctx, o.Config.ServiceBus, func(ctx context.Context, submit func(context.Context, publish.Item) error) error {
		for i, h := range good {
			ev, why, err := events.read(ctx, h.record)
			if err != nil {
				return err
			}
			if why != nil { // the event was changed or deleted since it was chosen
				mu.Lock()
				refused = append(refused, stays(h.record, why))
				mu.Unlock()
				continue
			}
			if err := submit(ctx, publish.Item{Event: ev, Ticket: uint64(i)}); err != nil {
				return err
			}
		}
		return nil
	})
	*published = int64(len(sent))
	if len(sent) > 0 {
		// Remove the records of all events that were sent, also after an error or a signal.
		_, failure := records.Remove(context.WithoutCancel(ctx), sent...)
		err = errors.Join(err, failure)
	}
	return refused, err
}

// currentEpoch returns the epoch of the last term. Messages carry it. It fails if that term was
// one of another pipeline.
func currentEpoch(ctx context.Context, o Options, s *stores) (int64, error) {
	read, err := readCheckpoint(ctx, s, o.Config)
	if read == nil || err != nil {
		return 0, err
	}
	return read.Epoch, refuseOther(ctx, o.Config, s, read)
}

// refuseOther fails if the checkpoint records another event store than the configuration, or
// another distribution over sessions. A command may have another topic.
func refuseOther(ctx context.Context, c config.Config, s *stores, read *checkpoint.State) error {
	if read.Identity == nil {
		return nil
	}
	here, _, err := term.Identify(ctx, c, s.events.Database().Client())
	if err != nil {
		return err
	}
	here.CollectionUUID, here.Namespace, here.Topic = read.Identity.CollectionUUID, read.Identity.Namespace, read.Identity.Topic
	if differences := read.Identity.Differences(here); len(differences) > 0 {
		return fmt.Errorf("%w: nothing is done; give the command the configuration of the publisher", &checkpoint.OtherPipelineError{Stream: c.Stream.Name, Differences: differences})
	}
	return nil
}
