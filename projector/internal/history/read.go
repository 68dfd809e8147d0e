package history

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// readFrom passes the aggregate's events from this id on to each, in parts. An event that
// breaks the contract is omitted, because it cannot be projected.
func (w *Workers) readFrom(ctx context.Context, a *aggregate, from int64, each func([]*event.Event)) (err error) {
	if a.raw.Type == 0 {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("read the events of %s: %w", a.id, err)
		}
	}()
	cursor, err := w.Events.Open(ctx, eventstore.At(a.raw, from), eventstore.After(a.raw), bson.Timestamp{})
	if err != nil || cursor == nil {
		return err
	}
	defer func() { _ = mongox.CloseCursor(ctx, cursor) }()
	for {
		documents, err := cursor.Next(ctx)
		if errors.Is(err, eventstore.ErrEnd) {
			return nil
		}
		if err != nil {
			return err
		}
		a.read += len(documents)
		page := make([]*event.Event, 0, len(documents))
		for _, document := range documents {
			ev, err := w.Events.Read(document)
			if err == nil {
				page = append(page, &ev)
			}
		}
		if len(page) > 0 {
			each(page)
		}
	}
}
