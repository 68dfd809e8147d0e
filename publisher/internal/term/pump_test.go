package term

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
	"github.com/penstock-cdc/penstock/publisher/internal/publish"
	"github.com/penstock-cdc/penstock/publisher/internal/quarantine"
	"github.com/penstock-cdc/penstock/publisher/internal/watch"
)

// newPump makes a pump that passes its events to submit.
func newPump(tb testing.TB, q quarantined, submit func(publish.Item)) *pump {
	tb.Helper()
	return &pump{
		reader:     testkit.EventReader(),
		epoch:      3,
		watermark:  checkpoint.NewWatermark(),
		quarantine: quarantine.NewStore(q, "events", quarantine.Options{}),
		storing:    new(mongox.Access),
		record:     func(context.Context, event.IDKind) error { return nil },
		checkFirst: func(context.Context) error { return nil },
		untimed:    newMetrics(nil).untimed,
		submit: func(_ context.Context, item publish.Item) error {
			submit(item)
			return nil
		},
	}
}

func insertAt(i int, document bson.D) watch.Insert {
	return watch.Insert{
		Document: testkit.Raw(document),
		Token:    positionToken(i+1, 0),
		Time:     timeOf(i),
	}
}

func good(i int) watch.Insert {
	return insertAt(i, bson.D{
		{Key: "_id", Value: i}, {Key: "aggregateId", Value: fmt.Sprintf("agg-%d", i%50)}, {Key: "eventId", Value: i/50 + 1},
		{Key: "eventType", Value: "Happened"}, {Key: "payload", Value: bson.D{{Key: "text", Value: strings.Repeat("x", 300)}}},
	})
}

// TestUnreadableTimestampsAreCounted publishes an event whose timestamp is a number.
func TestUnreadableTimestampsAreCounted(t *testing.T) {
	t.Parallel()
	published := 0
	p := newPump(t, newQuarantined(t), func(publish.Item) { published++ })
	doubtful := insertAt(1, bson.D{{Key: "_id", Value: 1}, {Key: "aggregateId", Value: "a"}, {Key: "eventId", Value: 1}, {Key: "eventType", Value: "Happened"}, {Key: "timestamp", Value: 1700000000}})
	if err := p.stream(t.Context(), watch.Batch{Inserts: []watch.Insert{good(0), doubtful}}); err != nil {
		t.Fatal(err)
	}
	if counted := testutil.ToFloat64(p.untimed); published != 2 || counted != 1 {
		t.Errorf("%d events published, %v counted", published, counted)
	}
}

// TestFirstEventDecidesTheTypeOfIDs begins with an empty store.
func TestFirstEventDecidesTheTypeOfIDs(t *testing.T) {
	t.Parallel()
	q := newQuarantined(t)
	var items []publish.Item
	var recorded []event.IDKind
	p := newPump(t, q, func(item publish.Item) { items = append(items, item) })
	p.record = func(_ context.Context, kind event.IDKind) error {
		recorded = append(recorded, kind)
		return nil
	}
	other := insertAt(1, bson.D{{Key: "_id", Value: 1}, {Key: "aggregateId", Value: 42}, {Key: "eventId", Value: 1}, {Key: "eventType", Value: "Happened"}})
	if err := p.stream(t.Context(), watch.Batch{Inserts: []watch.Insert{good(0), other, good(2)}}); err != nil {
		t.Fatal(err)
	}
	if len(items) != 2 || !q.ids()[1] || len(recorded) != 1 || recorded[0] != event.IDString {
		t.Errorf("%d events submitted, in the quarantine are %v, recorded is %v", len(items), q.ids(), recorded)
	}
}

func TestUnpublishableEventDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	q := newQuarantined(t)
	var items []publish.Item
	p := newPump(t, q, func(item publish.Item) { items = append(items, item) })
	batch := watch.Batch{
		Inserts: []watch.Insert{good(0), insertAt(1, bson.D{{Key: "_id", Value: 1}}), good(2)},
		Token:   positionToken(3, 9),
		Time:    timeOf(2),
	}
	if err := p.stream(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if ids := q.ids(); len(items) != 2 || !ids[1] {
		t.Fatalf("%d events submitted, in the quarantine are %v", len(items), ids)
	}
	if low, moves := p.watermark.Low(); moves != 0 {
		t.Errorf("the watermark is at %v before anything is accepted", low)
	}
	p.acked([]uint64{items[1].Ticket})
	if _, moves := p.watermark.Low(); moves != 0 {
		t.Error("the watermark passed an event that is in flight")
	}
	p.acked([]uint64{items[0].Ticket})
	if low, _ := p.watermark.Low(); string(low.Token) != string(batch.Token) {
		t.Errorf("the watermark is at %v, want the batch's end", low)
	}
}

func TestEventWithoutAKeyKeepsThePreviousScanPosition(t *testing.T) {
	t.Parallel()
	q := newQuarantined(t)
	var items []publish.Item
	p := newPump(t, q, func(item publish.Item) { items = append(items, item) })
	since := timeOf(7)
	p.at = checkpoint.Position{Scan: checkpoint.Scan{OperationTime: since}}
	bad := testkit.Raw(bson.D{{Key: "_id", Value: 1}, {Key: "aggregateId", Value: "z"}})
	if err := p.scanned(t.Context(), []bson.Raw{bad}); err != nil {
		t.Fatal(err)
	}
	if low, _ := p.watermark.Low(); low.Scan.OperationTime != since || low.Scan.AggregateID.Type != 0 {
		t.Errorf("the scan is at %+v, want its beginning", low.Scan)
	}
	if err := p.scanned(t.Context(), []bson.Raw{good(0).Document, bad}); err != nil {
		t.Fatal(err)
	}
	p.acked([]uint64{items[0].Ticket})
	if low, _ := p.watermark.Low(); low.Scan.AggregateID.StringValue() != "agg-0" || low.Scan.EventID != 1 {
		t.Errorf("the scan is at %+v, want agg-0/1", low.Scan)
	}
}

// BenchmarkPump measures the cost of an event between the stream and the dispatcher.
func BenchmarkPump(b *testing.B) {
	const events = 512
	tickets := make([]uint64, 0, events)
	p := newPump(b, newQuarantined(b), func(item publish.Item) { tickets = append(tickets, item.Ticket) })
	batch := watch.Batch{Token: positionToken(events, 0), Time: timeOf(events)}
	for i := range events {
		batch.Inserts = append(batch.Inserts, good(i))
	}
	b.ReportAllocs()
	for b.Loop() {
		tickets = tickets[:0]
		if err := p.stream(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
		p.acked(tickets)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/events, "ns/event")
}
