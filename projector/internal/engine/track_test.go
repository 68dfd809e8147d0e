package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// slowCollection is a store whose collection counts answers only after another projection
// has written.
type slowCollection struct {
	*memory
	written chan struct{}
}

func (s slowCollection) Load(ctx context.Context, units []model.Unit) ([]model.State, error) {
	if units[0].Collection == "counts" {
		select {
		case <-s.written:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return s.memory.Load(ctx, units)
}

func (s slowCollection) Write(ctx context.Context, writes []model.Write) ([]model.Written, error) {
	written, err := s.memory.Write(ctx, writes)
	if writes[0].Collection == "things" {
		close(s.written)
	}
	return written, err
}

// TestSlowProjectionDelaysNoOther checks that a projection writes while another one still
// waits for its read models.
func TestSlowProjectionDelaysNoOther(t *testing.T) {
	t.Parallel()
	b := newBench(t, twoProjections, func(o *benchOptions) {
		if m, ok := o.Store.(*memory); ok {
			o.Store = slowCollection{m, make(chan struct{})}
		}
	})
	b.process(t, events(t, "one", "1 Add", "2 Add"), fresh, "done/done")
	b.expect(t, "counts", "one", 2, `{"ids":[1,2],"n":2}`)
	b.expect(t, "things", "one", 2, `{"last":2}`)
}

// TestLargeBatchIsLoadedInPages checks that a batch whose documents exceed the memory bound
// is processed in pages: each page is written and released before the next one is loaded.
func TestLargeBatchIsLoadedInPages(t *testing.T) {
	t.Parallel()
	b := newBench(t, `projections: [{name: p, collection: p, on: {Add: {inc: {n: 1}}}}]`)
	b.room = 2
	b.onLoad = func(int) error {
		if b.unreleased > 0 {
			t.Error("more was loaded before the last page was released")
		}
		return nil
	}
	var batch []*event.Event
	for i := range 5 {
		batch = append(batch, events(t, fmt.Sprint("aggregate-", i), "1 Add", "2 Add")...)
	}
	b.process(t, batch, fresh, strings.Join(slices.Repeat([]string{"done"}, 10), "/"))
	for i := range 5 {
		b.expect(t, "p", fmt.Sprint("aggregate-", i), 2, `{"n":2}`)
	}
	if len(b.writes) != 3 {
		t.Errorf("%d writes", len(b.writes))
	}
}
