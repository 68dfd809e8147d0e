package engine_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"weak"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/projection/projectiontest"
)

// endless is an event store with all events of all aggregates. It counts the bytes of
// returned events that are still in use.
type endless struct {
	document bson.Raw
	given    []weak.Pointer[event.Event]
	most     int
}

func (e *endless) Missing(_ context.Context, ev *event.Event, from, to int64, limit int) ([]*event.Event, error) {
	runtime.GC()
	used := 0
	for _, p := range e.given {
		if p.Value() != nil {
			used += len(e.document)
		}
	}
	e.most = max(e.most, used)
	var events []*event.Event
	for id := from; id <= to && len(events) < limit; id++ {
		found := &event.Event{Keys: event.Keys{AggregateID: ev.AggregateID, AggregateType: "Thing", EventID: id, EventType: "Add"}, Document: e.document}
		events = append(events, found)
		e.given = append(e.given, weak.Make(found))
	}
	return events, nil
}

func (*endless) First(context.Context, *event.Event) (*event.Event, error) { return nil, nil }

// A new subscription lacks the history of every aggregate. The engine writes the events
// that it has read for a repair before it reads more, because all of them would neither
// fit into memory nor be read within one call.
func TestRepairReadsAreBounded(t *testing.T) {
	t.Parallel()
	const aggregates, history, size = 24, 1000, 2 << 10
	store := &endless{document: testkit.FromJSON(fmt.Sprintf(`{"filler":%q}`, strings.Repeat("x", size)))}
	b := newBench(t, `projections: [{name: p, collection: p, on: {Add: {inc: {n: 1}}}}]`, func(o *benchOptions) { o.Repairer = store })
	var batch []*event.Event
	for i := range aggregates {
		ev := projectiontest.Event(history+1, "Add", `{}`)
		ev.AggregateID = fmt.Sprint("aggregate-", i)
		batch = append(batch, ev)
	}
	b.process(t, batch, fresh, strings.TrimSuffix(strings.Repeat("done/", aggregates), "/"))
	for i := range aggregates {
		b.expect(t, "p", fmt.Sprint("aggregate-", i), history+1, fmt.Sprintf(`{"n":%d}`, history+1))
	}
	// The bound, plus one page, plus written events that are not freed yet.
	if most := 4 << 20; store.most > most {
		t.Errorf("%d bytes of history were in memory at once, more than %d", store.most, most)
	}
	if len(b.writes) < 2 {
		t.Errorf("%d writes", len(b.writes))
	}
}
