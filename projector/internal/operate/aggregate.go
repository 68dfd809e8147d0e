package operate

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// readAggregate calls visit with the events of an aggregate in the order of their ids, in
// pages. If an event breaks the event contract, visit gets the reason and the keys that
// could be read. visit may keep the event.
func readAggregate(ctx context.Context, reader *eventstore.Reader, id string, visit func(*event.Event, error) error) error {
	known, err := reader.Known(ctx, []string{id})
	if err != nil {
		return err
	}
	raw, ok := known[id]
	if !ok {
		return nil
	}
	return readRange(ctx, reader, eventstore.Before(raw), eventstore.After(raw), visit)
}

// readRange calls visit with the events of a range, as [readAggregate] does.
func readRange(ctx context.Context, reader *eventstore.Reader, from, until eventstore.Position, visit func(*event.Event, error) error) (err error) {
	cursor, err := reader.Open(ctx, from, until, bson.Timestamp{})
	if cursor == nil || err != nil {
		return err
	}
	defer func() {
		if e := mongox.CloseCursor(ctx, cursor); e != nil && err == nil {
			err = fmt.Errorf("close the cursor of the events: %w", e)
		}
	}()
	for {
		page, err := cursor.Next(ctx)
		if errors.Is(err, eventstore.ErrEnd) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, document := range page {
			ev, broken := reader.Read(document)
			if err := visit(&ev, broken); err != nil {
				return err
			}
		}
	}
}
