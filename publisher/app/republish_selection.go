package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/publisher/internal/quarantine"
	"github.com/penstock-cdc/penstock/publisher/internal/term"
)

// publishersReader returns a reader that reads events as the publisher does: with ids of the type
// that the event store has.
func publishersReader(ctx context.Context, history term.Source, fields event.Fields) (*event.Reader, error) {
	reader := event.NewReader(fields)
	kind, err := history.LearnIDs(ctx)
	reader.Only(kind)
	return reader, err
}

// chooseStored selects the events of the aggregate or of the time span, and counts them.
func (c *republishCommand) chooseStored(ctx context.Context, e *environment, history *eventstore.Reader, reader *event.Reader) (selection, error) {
	what := fmt.Sprintf("aggregate %q", c.Aggregate)
	var from, until eventstore.Position
	if c.Aggregate == "" {
		what = "from " + cli.Time(*c.From) + " to " + cli.Time(*c.To)
	} else {
		known, err := history.Known(ctx, []string{c.Aggregate})
		if err != nil {
			return selection{}, err
		}
		id, ok := known[c.Aggregate]
		if !ok {
			return selection{}, fmt.Errorf("%s: no such event in the event store", what)
		}
		from, until = eventstore.Before(id), eventstore.After(id)
	}
	read := func(ctx context.Context, do func(context.Context, event.Event) error) (broken int64, err error) {
		return eachIn(ctx, e.options.Logger, history, reader, from, until, func(ctx context.Context, ev event.Event) error {
			if c.From != nil && (ev.Timestamp.Before(*c.From) || !ev.Timestamp.Before(*c.To)) {
				return nil
			}
			return do(ctx, ev)
		})
	}
	var events int64
	broken, err := read(ctx, func(context.Context, event.Event) error {
		events++
		return nil
	})
	if err != nil {
		return selection{}, err
	}
	what += fmt.Sprintf("; %d that break the contract are left out", broken)
	if events == 0 {
		return selection{}, fmt.Errorf("%s: no such event in the event store", what)
	}
	return selection{what: what, events: events, each: func(ctx context.Context, do func(context.Context, event.Event, *quarantine.Record) error) error {
		_, err := read(ctx, func(ctx context.Context, ev event.Event) error { return do(ctx, ev, nil) })
		return err
	}}, nil
}

// eachIn calls do with every event of a range, in the order of its aggregate, and counts the
// events that break the contract. If MongoDB ends the cursor, in a failover or because a low
// rate left it idle for 10 minutes, the scanner continues where it stopped.
func eachIn(ctx context.Context, logger zerolog.Logger, history term.Source, reader *event.Reader, from, until eventstore.Position, do func(context.Context, event.Event) error) (broken int64, err error) {
	var last event.Event
	err = term.NewScanner(history, term.ScanOptions{Logger: logger}).Run(ctx, from, until, bson.Timestamp{}, func(ctx context.Context, documents []bson.Raw) error {
		for _, document := range documents {
			ev, err := reader.Read(document)
			if err != nil {
				broken++
				continue
			}
			// A scan that continues repeats the event at which it stopped.
			if ev.AggregateID == last.AggregateID && ev.EventID == last.EventID {
				continue
			}
			last = ev
			if err := do(ctx, ev); err != nil {
				return err
			}
		}
		return nil
	})
	return broken, err
}

// chooseRecords selects the records whose events can be published now. It does not hold the
// events, because all of them together can exceed the memory of a pod in which the command runs.
func chooseRecords(ctx context.Context, events *mongo.Collection, reader *event.Reader, found []quarantine.Record) (selection, error) {
	type healed struct {
		quarantine.Record
		keys event.Keys
	}
	var chosen selection
	var good []healed
	for _, record := range found {
		ev, why, err := readAgain(ctx, events, reader, record)
		switch {
		case err != nil:
			return chosen, err
		case why != nil:
			chosen.unsent = append(chosen.unsent, unsent{record.Document, record.AggregateID, why.Error()})
		default:
			good = append(good, healed{record, ev.Keys})
		}
	}
	slices.SortStableFunc(good, func(a, b healed) int {
		return cmp.Or(cmp.Compare(a.keys.AggregateID, b.keys.AggregateID), cmp.Compare(a.keys.EventID, b.keys.EventID))
	})
	records := make([]quarantine.Record, len(good))
	for i, h := range good {
		records[i] = h.Record
	}
	chosen.events = int64(len(records))
	chosen.what = fmt.Sprintf("of the quarantine: %s; %d more stay there", examples(records), len(chosen.unsent))
	chosen.each = func(ctx context.Context, do func(context.Context, event.Event, *quarantine.Record) error) error {
		for i := range records {
			ev, why, err := readAgain(ctx, events, reader, records[i])
			if err == nil && why == nil { // else the event was changed or deleted since it was chosen
				err = do(ctx, ev, &records[i])
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return chosen, nil
}

// readAgain reads the event of a record from the event store. why is the reason if the event
// cannot be published.
func readAgain(ctx context.Context, events *mongo.Collection, reader *event.Reader, record quarantine.Record) (ev event.Event, why, err error) {
	reading, cancel := mongox.Timeout(ctx, attemptTimeout)
	defer cancel()
	document, err := events.FindOne(reading, bson.D{{Key: "_id", Value: record.DocumentID}}).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return ev, fmt.Errorf("%w: if a corrected event was inserted instead, it was published like any other, and this record can be discarded", quarantine.ErrGone), nil
	}
	if err != nil {
		return ev, nil, fmt.Errorf("read event %s of %s: %w", record.Document, events.Name(), mongox.Explain(reading, err))
	}
	ev, why = reader.Read(document)
	return ev, why, nil
}
