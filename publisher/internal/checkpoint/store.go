package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// CollectionName is the collection of the checkpoints.
const CollectionName = "checkpoints"

// claimAttempts bounds the attempts of a claim. An attempt fails if another process claims
// the checkpoint between the claim's read and its update.
const claimAttempts = 5

var (
	// ErrFenced says that a later term has claimed the checkpoint, so this term is over.
	ErrFenced = errors.New("checkpoint is claimed by a later term")
	// ErrRefused says that MongoDB does not allow the user to save the checkpoint. The text
	// has the remedy.
	ErrRefused = errors.New("checkpoint is refused")
	// ErrNoPosition says that a position is zero: there is nothing to save.
	ErrNoPosition = errors.New("position is empty")
)

// Checkpoints returns the collection checkpoints of db.
func Checkpoints(db *mongo.Database) *mongo.Collection { return db.Collection(CollectionName) }

// document is the stored checkpoint.
type document struct {
	Epoch       int64          `bson:"epoch"`
	Holder      string         `bson:"holder"`
	Claim       bson.ObjectID  `bson:"claim"`
	UpdatedAt   time.Time      `bson:"updatedAt"`
	Token       bson.Raw       `bson:"token"`
	ClusterTime bson.Timestamp `bson:"clusterTime"`
	Scan        *Scan          `bson:"scan"`
	// Since is where the stream began; zero for the beginning of the event store.
	Since bson.Timestamp `bson:"since"`
	// IDs is the type of the aggregates' ids; empty before the first event.
	IDs      event.IDKind `bson:"aggregateIds"`
	Identity *Identity    `bson:"identity"`
}

// position returns the start position in the document.
func (d *document) position() Position {
	position := Position{Token: d.Token, ClusterTime: d.ClusterTime}
	if d.Scan != nil {
		position = Position{Scan: *d.Scan}
	}
	if d.Identity != nil {
		position.CollectionUUID = d.Identity.CollectionUUID
	}
	return position
}

// Options configure a store. In the zero value it reports to no one: every field is
// optional.
type Options struct {
	Logger zerolog.Logger
	// Registerer receives penstock_publisher_epoch,
	// penstock_publisher_checkpoint_age_seconds,
	// penstock_publisher_checkpoint_saves_total{result} and
	// penstock_publisher_checkpoint_window_events.
	Registerer prometheus.Registerer
}

// Store keeps the checkpoint of one stream. A process makes one.
type Store struct {
	checkpoints mongox.Collection
	stream      string
	logger      zerolog.Logger
	metrics     *metrics
}

// NewStore makes the store of the checkpoint whose _id is stream. Make checkpoints by
// [Checkpoints].
func NewStore(checkpoints mongox.Collection, stream string, options Options) *Store {
	return &Store{
		checkpoints: checkpoints,
		stream:      stream,
		logger:      options.Logger.With().Str("component", "checkpoint").Logger(),
		metrics:     newMetrics(options.Registerer),
	}
}

// Check fails with [ErrOtherPipeline] if the checkpoint exists and belongs to another
// pipeline than here.
func (s *Store) Check(ctx context.Context, here Identity) error {
	found, err := s.find(ctx)
	if err == nil {
		_, err = s.judge(found, here)
	}
	return err
}

// Claim begins a term. It issues the next epoch in one atomic step, and every later save of
// an earlier claim fails with [ErrFenced]. Claim is not retried: after an error it is
// unknown whether the epoch was issued, and the next claim issues a later one.
//
// The checkpoint must belong to the pipeline here. Otherwise the claim fails with
// [ErrOtherPipeline] and changes nothing. The comparison is part of the atomic step: the update
// requires the epoch that was read, and every claim and [Store.Release] changes the epoch.
func (s *Store) Claim(ctx context.Context, holder string, here Identity) (*Claim, error) {
	for range claimAttempts {
		found, err := s.find(ctx)
		if err != nil {
			return nil, err
		}
		identity, err := s.judge(found, here)
		if err != nil {
			return nil, err
		}
		epoch := bson.E{Key: "epoch", Value: bson.D{{Key: "$exists", Value: false}}}
		switch {
		case found != nil && found.Epoch == 0: // edited by hand: null also matches an absent field
			epoch.Value = bson.D{{Key: "$in", Value: bson.A{int64(0), nil}}}
		case found != nil:
			epoch.Value = found.Epoch
		}
		var claimed document
		err = s.checkpoints.FindOneAndUpdate(ctx,
			bson.D{{Key: "_id", Value: s.stream}, epoch},
			bson.D{
				{Key: "$inc", Value: bson.D{{Key: "epoch", Value: int64(1)}}},
				{Key: "$set", Value: bson.D{
					{Key: "holder", Value: holder},
					{Key: "claim", Value: bson.NewObjectID()},
					{Key: "revision", Value: int64(0)},
					{Key: "updatedAt", Value: time.Now()},
					{Key: "identity", Value: identity},
				}},
			},
			options.FindOneAndUpdate().SetUpsert(found == nil).SetReturnDocument(options.After),
		).Decode(&claimed)
		switch {
		case mongo.IsDuplicateKeyError(err) || errors.Is(err, mongo.ErrNoDocuments):
			continue
		case err != nil:
			return nil, fmt.Errorf("claim checkpoint %s: %w", s.stream, err)
		}
		return s.claimed(claimed), nil
	}
	return nil, fmt.Errorf("claim checkpoint %s: other processes were faster %d times; check that all publishers of the stream share one lease", s.stream, claimAttempts)
}

// find reads the checkpoint; nil without an error means that there is none.
func (s *Store) find(ctx context.Context) (*document, error) {
	var found document
	err := s.checkpoints.FindOne(ctx, bson.D{{Key: "_id", Value: s.stream}}).Decode(&found)
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read checkpoint %s: %w", s.stream, err)
	}
	return &found, nil
}

// judge returns the identity that a claim records, or the reason against the claim.
func (s *Store) judge(found *document, here Identity) (Identity, error) {
	if found == nil || found.Identity == nil {
		return here, nil
	}
	if differences := found.Identity.Differences(here); len(differences) > 0 {
		return Identity{}, &OtherPipelineError{Stream: s.stream, Differences: differences}
	}
	// The recorded collection changes only together with the position that belongs to it.
	here.CollectionUUID = found.Identity.CollectionUUID
	return here, nil
}

func (s *Store) claimed(found document) *Claim {
	claim := &Claim{Epoch: found.Epoch, Position: found.position(), Since: found.Since, IDs: found.IDs, store: s, id: found.Claim}
	s.metrics.epoch.Set(float64(claim.Epoch))
	return claim
}

// Claim is the right of one term to move the checkpoint.
type Claim struct {
	// Epoch is greater than that of every earlier claim, unless the checkpoint's document
	// was deleted.
	Epoch int64
	// Position is the last position of earlier terms; zero except for its CollectionUUID if
	// there was none.
	Position Position
	// Since is where the stream began, before this term; zero for the beginning of the event
	// store.
	Since bson.Timestamp
	// IDs is the type of the aggregates' ids; empty if it is not known yet.
	IDs event.IDKind

	store *Store
	// id is unique, also among the processes that have had the name of the holder.
	id bson.ObjectID
	// revision counts the saves.
	revision atomic.Int64
}

// Save stores p, which must not be zero. It fails with [ErrFenced] if a later claim exists
// or the checkpoint was deleted. After any other error it is unknown whether p is stored. A
// save that the server processes after a later save of the same claim changes nothing.
func (c *Claim) Save(ctx context.Context, p Position) error {
	revision := c.revision.Add(1)
	update, err := updateTo(p, revision)
	if err != nil {
		return fmt.Errorf("save checkpoint %s: %w", c.store.stream, err)
	}
	// A retry of this save must match the document that its first attempt wrote.
	notNewer := bson.E{Key: "revision", Value: bson.D{{Key: "$lte", Value: revision}}}
	result, err := c.store.checkpoints.UpdateOne(ctx, append(c.held(), notNewer), update)
	switch {
	case err != nil:
		c.store.metrics.saves.WithLabelValues(resultError).Inc()
		return fmt.Errorf("save checkpoint %s: %w", c.store.stream, err)
	case result.MatchedCount == 0:
		c.store.metrics.saves.WithLabelValues(resultFenced).Inc()
		return fmt.Errorf("save checkpoint %s in epoch %d: %w", c.store.stream, c.Epoch, ErrFenced)
	}
	c.store.metrics.saves.WithLabelValues(resultSaved).Inc()
	return nil
}

// held selects the checkpoint while this claim is the last one. Epochs begin at 1 again if an
// operator deletes the document, but claims are unique.
func (c *Claim) held() bson.D {
	return bson.D{{Key: "_id", Value: c.store.stream}, {Key: "epoch", Value: c.Epoch}, {Key: "claim", Value: c.id}}
}

// RecordIDs stores the type of the aggregates' ids. It fails like [Claim.Save].
func (c *Claim) RecordIDs(ctx context.Context, kind event.IDKind) error {
	result, err := c.store.checkpoints.UpdateOne(ctx, c.held(), bson.D{{Key: "$set", Value: bson.D{{Key: "aggregateIds", Value: kind}}}})
	if err == nil && result.MatchedCount == 0 {
		err = ErrFenced
	}
	if err != nil {
		return fmt.Errorf("record the type of ids with checkpoint %s: %w", c.store.stream, err)
	}
	c.IDs = kind
	return nil
}

// updateTo returns the update that stores p.
func updateTo(p Position, revision int64) (bson.D, error) {
	set := bson.D{
		{Key: "revision", Value: revision},
		{Key: "updatedAt", Value: time.Now()},
	}
	if p.Begin {
		set = append(set, bson.E{Key: "since", Value: p.ClusterTime})
	}
	if p.CollectionUUID != "" {
		set = append(set, bson.E{Key: "identity.collectionUUID", Value: p.CollectionUUID})
	}
	var unset bson.D
	drop := func(field string) { unset = append(unset, bson.E{Key: field, Value: ""}) }
	switch {
	case p.Scan.Active():
		set = append(set, bson.E{Key: "scan", Value: p.Scan})
		drop("token")
	case len(p.Token) > 0:
		set = append(set, bson.E{Key: "token", Value: p.Token})
		if !p.ClusterTime.IsZero() {
			set = append(set, bson.E{Key: "clusterTime", Value: p.ClusterTime})
		}
		drop("scan")
	case !p.ClusterTime.IsZero():
		set = append(set, bson.E{Key: "clusterTime", Value: p.ClusterTime})
		drop("token")
		drop("scan")
	default:
		return nil, ErrNoPosition
	}
	return bson.D{{Key: "$set", Value: set}, {Key: "$unset", Value: unset}}, nil
}
