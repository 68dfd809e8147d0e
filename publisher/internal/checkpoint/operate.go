package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// ErrMoved says that a term has claimed the checkpoint since it was read.
var ErrMoved = errors.New("a term has claimed the checkpoint since it was read")

// State is a checkpoint as an operator sees it.
type State struct {
	// Epoch is the last claimed epoch, and Holder the process that claimed it.
	Epoch  int64
	Holder string
	// UpdatedAt is when the checkpoint was saved, by the clock of its holder.
	UpdatedAt time.Time
	// Position is where the next term starts; zero if it starts as for a new stream.
	Position Position
	// Since is where the stream began; zero for the beginning of the event store.
	Since bson.Timestamp
	// Identity is the pipeline that the checkpoint belongs to.
	Identity *Identity
}

// Read returns the checkpoint; nil without an error means that there is none.
func (s *Store) Read(ctx context.Context) (*State, error) {
	found, err := s.find(ctx)
	if found == nil || err != nil {
		return nil, err
	}
	return &State{
		Epoch: found.Epoch, Holder: found.Holder, UpdatedAt: found.UpdatedAt,
		Position: found.position(), Since: found.Since, Identity: found.Identity,
	}, nil
}

// Move sets the position of a checkpoint that was read, for holder, and the collection that it
// belongs to: an empty one means that the next term scans. Move claims the next epoch in the
// same step: if a term is running, its next save fails with [ErrFenced], and the next term
// starts at the position. If a term has claimed the checkpoint since it was read, Move
// fails with [ErrMoved] and changes nothing. The recorded start of the stream goes unless the
// position has one.
func (s *Store) Move(ctx context.Context, read *State, holder string, to Position) error {
	update, err := updateTo(to, 0)
	if err != nil {
		return fmt.Errorf("move checkpoint %s: %w", s.stream, err)
	}
	set, unset := update[0].Value.(bson.D), update[1].Value.(bson.D)
	if !to.Begin {
		unset = append(unset, bson.E{Key: "since", Value: ""})
	}
	set = append(set, bson.E{Key: "holder", Value: holder})
	unset = append(unset, bson.E{Key: "aggregateIds", Value: ""})
	if read.Identity != nil && to.CollectionUUID == "" {
		set = append(set, bson.E{Key: "identity.collectionUUID", Value: ""})
	}
	return s.change(ctx, read, set, unset)
}

// Release makes the pipeline here the owner of the checkpoint read. As with [Store.Move], holder
// is who does it. The next term continues at the position, or scans if the event store is
// another one.
func (s *Store) Release(ctx context.Context, read *State, holder string, here Identity) error {
	here.CollectionUUID = ""
	if read.Identity != nil && read.Identity.sameSource(here) {
		here.CollectionUUID = read.Identity.CollectionUUID
	}
	return s.change(ctx, read, bson.D{
		{Key: "revision", Value: int64(0)}, {Key: "updatedAt", Value: time.Now()},
		{Key: "holder", Value: holder}, {Key: "identity", Value: here},
	}, bson.D{{Key: "aggregateIds", Value: ""}})
}

// change changes a checkpoint that was read, and claims the next epoch.
func (s *Store) change(ctx context.Context, read *State, set, unset bson.D) error {
	update := bson.D{
		{Key: "$inc", Value: bson.D{{Key: "epoch", Value: int64(1)}}},
		{Key: "$set", Value: set},
		{Key: "$unset", Value: unset},
	}
	err := s.checkpoints.FindOneAndUpdate(ctx, bson.D{{Key: "_id", Value: s.stream}, {Key: "epoch", Value: read.Epoch}},
		update, options.FindOneAndUpdate().SetReturnDocument(options.After)).Err()
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return fmt.Errorf("change checkpoint %s of epoch %d: %w", s.stream, read.Epoch, ErrMoved)
	case err != nil:
		return fmt.Errorf("change checkpoint %s: %w", s.stream, err)
	}
	return nil
}
