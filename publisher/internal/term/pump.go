package term

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
	"github.com/penstock-cdc/penstock/publisher/internal/quarantine"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

// pump submits what the term reads to the dispatcher, and adds it to the watermark. One
// goroutine feeds it; many goroutines acknowledge.
type pump struct {
	reader     *event.Reader
	epoch      int64
	watermark  *checkpoint.Watermark
	quarantine *quarantine.Store
	// storing records that MongoDB accepts writes of the quarantine.
	storing *mongox.Access
	submit  func(ctx context.Context, item publish.Item) error
	// record stores the type of the aggregates' ids with the checkpoint.
	record func(context.Context, event.IDKind) error
	// checkFirst is [Source.CheckFirstID].
	checkFirst func(context.Context) error
	// untimed counts the events whose timestamp cannot be read.
	untimed prometheus.Counter
	logger  zerolog.Logger

	// since is where the stream began; zero for the beginning of the event store. Scans leave
	// out what is older.
	since bson.Timestamp
	// collectionUUID identifies the collection that the term reads.
	collectionUUID string
	// at is the last position that was added.
	at checkpoint.Position
	// older counts the events that scans left out because they are older than the stream.
	older int
	// moved reports whether the stream has moved since the last scan began.
	moved bool
	// unreadable are the events of the batch that go to the quarantine at its end, and handles
	// theirs in the watermark.
	unreadable []quarantine.Entry
	handles    []checkpoint.Handle
}

// stream takes a batch of the change stream.
func (p *pump) stream(ctx context.Context, batch watch.Batch) error {
	p.moved = true
	for i := range batch.Inserts {
		insert := &batch.Inserts[i]
		p.at = checkpoint.Position{Token: insert.Token, ClusterTime: insert.Time, CollectionUUID: p.collectionUUID}
		ev, err := p.reader.Read(insert.Document)
		if err := p.take(ctx, ev, err); err != nil {
			return err
		}
	}
	if err := p.settle(ctx); err != nil {
		return err
	}
	if batch.Token != nil {
		p.mark(checkpoint.Position{Token: batch.Token, ClusterTime: batch.Time})
	}
	return nil
}

// scanned takes a page of a scan. p.at is the scan's position before the page.
func (p *pump) scanned(ctx context.Context, documents []bson.Raw) error {
	for _, document := range documents {
		ev, err := p.reader.Read(document)
		// An event without a valid key gets the position of the event before it. A scan
		// that continues there reads it again.
		if err == nil {
			p.at.Scan.AggregateID, p.at.Scan.EventID = ev.RawAggregateID, ev.EventID
			if before(&ev, p.since) {
				p.older++
				continue
			}
		}
		if err := p.take(ctx, ev, err); err != nil {
			return err
		}
	}
	return p.settle(ctx)
}

// startTolerance is how much older than the start of the stream the timestamp of an event may
// be that was stored after it: writers have clocks of their own.
const startTolerance = time.Minute

// before reports whether the event is older than the start of the stream, by its
// timestamp and, if its _id is an ObjectId, by that one's time too. To publish it now would
// put it behind the later events of its aggregate.
func before(ev *event.Event, since bson.Timestamp) bool {
	if since.IsZero() || ev.Timestamp.IsZero() {
		return false
	}
	stored := ev.Timestamp
	if id, ok := ev.Document.Lookup("_id").ObjectIDOK(); ok && id.Timestamp().After(stored) {
		stored = id.Timestamp()
	}
	return stored.Before(time.Unix(int64(since.T), 0).Add(-startTolerance))
}

// behind takes a batch of the change stream during a scan. It publishes the events that
// covered reports as scanned, and leaves the others to the scan. It returns the cluster
// time of the last event that it left; zero if there was none.
func (p *pump) behind(ctx context.Context, batch watch.Batch, covered func(*event.Event) bool) (left bson.Timestamp, err error) {
	for i := range batch.Inserts {
		insert := &batch.Inserts[i]
		ev, err := p.reader.Read(insert.Document)
		if err == nil && !covered(&ev) {
			left = insert.Time
			continue
		}
		if err := p.take(ctx, ev, err); err != nil {
			return left, err
		}
	}
	return left, p.settle(ctx)
}

// mark records that everything up to that position has been added.
func (p *pump) mark(at checkpoint.Position) {
	at.CollectionUUID = p.collectionUUID
	p.at = at
	p.watermark.Mark(at)
}

// take submits the event at p.at or, if it could not be read, keeps it for the
// quarantine.
func (p *pump) take(ctx context.Context, ev event.Event, unreadable error) error {
	handle := p.watermark.Add(p.at)
	if unreadable != nil {
		p.unreadable = append(p.unreadable, entryOf(&ev, unreadable, p.at.Token))
		p.handles = append(p.handles, handle)
		return nil
	}
	if ev.UnreadableTimestamp() != "" {
		p.untimed.Inc()
	}
	if p.reader.IDKind() == "" { // the first event of the stream
		kind := p.reader.KindOf(ev.RawAggregateID)
		if err := p.record(ctx, kind); err != nil {
			return err
		}
		p.reader.Only(kind)
	}
	return p.submit(ctx, publish.Item{Event: ev, Ticket: handle})
}

// settle stores the unreadable events of the batch in the quarantine, and acknowledges them.
func (p *pump) settle(ctx context.Context) error {
	if len(p.unreadable) == 0 {
		return nil
	}
	// If the first event of all aggregates is out of range, the setting is wrong and not the event.
	if slices.ContainsFunc(p.unreadable, func(e quarantine.Entry) bool { return e.Reason == event.ReasonOutOfRange }) {
		checking, cancel := mongox.Timeout(ctx, askTimeout)
		err := p.checkFirst(checking)
		cancel()
		if errors.Is(err, eventstore.ErrFirstID) {
			return err
		}
	}
	if err := p.quarantine.Put(ctx, p.epoch, p.unreadable...); err != nil {
		return err
	}
	p.storing.Works()
	p.watermark.Ack(p.handles...)
	clear(p.unreadable)
	p.unreadable, p.handles = p.unreadable[:0], p.handles[:0]
	return nil
}

// refused stores an event that the dispatcher could not publish. The event's token is no
// longer available; the record identifies the event by its keys.
func (p *pump) refused(ctx context.Context, item *publish.Item, cause error) error {
	if err := p.quarantine.Put(ctx, p.epoch, entryOf(&item.Event, cause, nil)); err != nil {
		return fmt.Errorf("event %s/%d: %w", item.Event.AggregateID, item.Event.EventID, err)
	}
	p.storing.Works()
	return nil
}

// acked moves the watermark. The tickets of the pump's events are their watermark handles.
func (p *pump) acked(tickets []checkpoint.Handle) { p.watermark.Ack(tickets...) }

func entryOf(ev *event.Event, cause error, token bson.Raw) quarantine.Entry {
	reason, field, detail := quarantine.Cause(cause)
	return quarantine.Entry{
		DocumentID: ev.Document.Lookup("_id"),
		Reason:     reason,
		Field:      field,
		Detail:     detail,
		Keys:       ev.Keys,
		Numbered:   ev.HasEventID(),
		Token:      token,
		Event:      ev.Document,
	}
}
