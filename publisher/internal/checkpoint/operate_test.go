package checkpoint_test

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/publisher/internal/checkpoint"
)

func TestMoveFencesTheRunningTermAndTheNextOneStartsThere(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t, newCollection(t))
	if read, err := s.Read(t.Context()); err != nil || read != nil {
		t.Fatalf("without a checkpoint: %+v, %v", read, err)
	}
	running := claim(t, s, "pod-1")
	if err := running.Save(t.Context(), numbered(3)); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]checkpoint.Position{
		"time": {ClusterTime: bson.Timestamp{T: 7, I: 1}},
		"scan": {Scan: checkpoint.Scan{OperationTime: bson.Timestamp{T: 9}}},
	} {
		read, err := s.Read(t.Context())
		if err != nil || read.Position.IsZero() {
			t.Fatalf("%s: %+v, %v", name, read, err)
		}
		if err := s.Move(t.Context(), read, "ada", to); err != nil {
			t.Fatal(name, err)
		}
		if err := running.Save(t.Context(), numbered(4)); !errors.Is(err, checkpoint.ErrFenced) {
			t.Errorf("%s: the running term saved: %v", name, err)
		}
		if err := s.Move(t.Context(), read, "ada", numbered(5)); !errors.Is(err, checkpoint.ErrMoved) {
			t.Errorf("%s: a move from an old reading: %v", name, err)
		}
		running = claim(t, s, "pod-2")
		got := running.Position
		if len(got.Token) > 0 || got.ClusterTime != to.ClusterTime || got.Scan.OperationTime != to.Scan.OperationTime || running.Epoch != read.Epoch+2 {
			t.Errorf("%s: the next term starts at %+v in epoch %d", name, got, running.Epoch)
		}
		if err := running.Save(t.Context(), numbered(6)); err != nil {
			t.Fatal(name, err)
		}
	}
}
