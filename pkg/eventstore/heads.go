package eventstore

import (
	"bytes"
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Head summarizes the events of an aggregate.
type Head struct {
	// AggregateID is the canonical id, and RawAggregateID the id with its type in the
	// store.
	AggregateID    string
	RawAggregateID bson.RawValue
	// First and Last are the lowest and the highest valid event id.
	First, Last int64
	// Events is how many valid events there are. It is less than Last-First+1 if the
	// history has holes, and more if an event id is there twice.
	Events int64
}

// Heads reads the heads of the aggregates between from and until, with the bounds of
// [Reader.Open]. It asks only for keys of the index, so the server reads no event document.
// There are two exceptions: a key field that holds an array, and a collection that is
// sharded by another key. Heads leaves out documents whose keys break the event contract.
// The cursor is nil if the range is empty.
//
// If the collection's collation takes different ids as equal, an aggregate can have several
// heads. Each event is counted in exactly one of them.
func (r *Reader) Heads(ctx context.Context, from, until Position, since bson.Timestamp) (*HeadCursor, error) {
	found, err := r.find(ctx, from, until, since, r.keyProjection())
	if found == nil || err != nil {
		return nil, err
	}
	return &HeadCursor{query: found, reader: r}, nil
}

// keyProjection leaves only the fields of the index.
func (r *Reader) keyProjection() bson.D {
	return bson.D{{Key: "_id", Value: 0}, {Key: r.fields.AggregateID, Value: 1}, {Key: r.fields.EventID, Value: 1}}
}

// HeadCursor reads the heads of one range: it folds index keys into heads. Only one goroutine
// may use it.
type HeadCursor struct {
	*query

	reader *Reader
	// head is the aggregate that is being read; it is valid if Events is not 0.
	head  Head
	ended bool
}

// Next gives at most 512 heads, which the caller may keep. It reads keys until a page is full or
// the driver's batch is used up, so that a large aggregate does not make a call long: its pages
// are empty until it ends. Next fails with [ErrEnd] after the last head.
func (c *HeadCursor) Next(ctx context.Context) ([]Head, error) {
	var page []Head
	for !c.ended {
		if !c.cursor.Next(ctx) {
			if err := c.cursor.Err(); err != nil {
				return nil, fmt.Errorf("read the heads of aggregates: %w", err)
			}
			c.ended = true
			break
		}
		if done, ok := c.add(c.cursor.Current); ok {
			page = append(page, done)
		}
		if len(page) >= pageDocuments || c.cursor.RemainingBatchLength() == 0 {
			return page, nil
		}
	}
	if c.head.Events > 0 {
		page = append(page, c.head)
		c.head = Head{}
	}
	if len(page) == 0 {
		return nil, ErrEnd
	}
	return page, nil
}

// add adds a key. If the key begins another aggregate, it gives the finished head before
// it.
func (c *HeadCursor) add(key bson.Raw) (done Head, ok bool) {
	ev, err := c.reader.reader.ReadPosition(key)
	if err != nil {
		return Head{}, false
	}
	if c.head.Events > 0 && c.head.AggregateID == ev.AggregateID {
		c.head.Last = ev.EventID
		c.head.Events++
		return Head{}, false
	}
	done, ok = c.head, c.head.Events > 0
	raw := ev.RawAggregateID
	c.head = Head{
		AggregateID:    ev.AggregateID,
		RawAggregateID: bson.RawValue{Type: raw.Type, Value: bytes.Clone(raw.Value)},
		First:          ev.EventID,
		Last:           ev.EventID,
		Events:         1,
	}
	return done, ok
}
