package readmodel

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/pkg/testkit"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// TestOpenTransactionBlocksOnlyItsOwnAggregates covers a creation that never ends because
// its projector was killed. It delays the group of another aggregate by a second, and blocks only
// its own aggregates.
func TestOpenTransactionBlocksOnlyItsOwnAggregates(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := newTestStore(t, db)
	neighbours := make([]model.Write, 0, 21)
	for i := range 20 {
		k := deletable(fmt.Sprint("neighbour-", i))
		if i < 10 {
			s.apply(t, model.Applied, model.Write{Unit: k, Kind: model.Create, To: 1, Document: testkit.FromJSON(`{}`)})
			neighbours = append(neighbours, model.Write{Unit: k, Kind: model.Delete, From: 1, To: 2})
		} else {
			neighbours = append(neighbours, model.Write{Unit: k, Kind: model.MoveWatermark, To: 2})
		}
	}
	// The killed projector's transaction has begun to write, and nothing ends it.
	stuck := deletable("stuck")
	killed, begun := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- db.transaction(context.Background(), func(ctx context.Context) error {
			fence := sideFence(&model.Write{Unit: stuck, Kind: model.Create, To: 1}, time.Now())
			_, err := db.update(ctx, watermarksCollection, []update{fence})
			close(begun)
			<-killed
			return err
		})
	}()
	<-begun
	operations := append(neighbours, model.Write{Unit: stuck, Kind: model.MoveWatermark, To: 2})
	for i, r := range s.write(t, operations...) {
		want := model.Applied
		if i == 20 {
			want = model.Unknown
		}
		if r.Status != want {
			t.Errorf("%s: %+v, want %d", operations[i].AggregateID, r, want)
		}
	}
	close(killed)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	s.apply(t, model.Applied, model.Write{Unit: stuck, Kind: model.MoveWatermark, To: 2})
}
