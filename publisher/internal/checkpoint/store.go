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
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// CollectionName is the collection that the checkpoints are in.
const CollectionName = "checkpoints"

// claimAttempts is how often a claim is tried if other processes claim the checkpoint
// between its read and its update.
const claimAttempts = 5

var (
	// ErrFenced says that a later term has claimed the checkpoint: this one is over.
	ErrFenced = errors.New("checkpoint is claimed by a later term")
	// ErrNoPosition says that a position is zero: there is nothing to save.
	ErrNoPosition = errors.New("position is empty")
)

// Collection is what a store needs of a [*mongo.Collection].
type Collection interface {
	FindOne(ctx context.Context, filter any, opts ...options.Lister[options.FindOneOptions]) *mongo.SingleResult
	FindOneAndUpdate(ctx context.Context, filter, update any, opts ...options.Lister[options.FindOneAndUpdateOptions]) *mongo.SingleResult
	UpdateOne(ctx context.Context, filter, update any, opts ...options.Lister[options.UpdateOneOptions]) (*mongo.UpdateResult, error)
}

var _ Collection = (*mongo.Collection)(nil)

// Checkpoints returns the collection checkpoints of db. It writes with majority write
// concern: a failover of the database must not take a claim or a token back. It reads
// from the primary.
func Checkpoints(db *mongo.Database) *mongo.Collection {
	return db.Collection(CollectionName, options.Collection().
		SetWriteConcern(writeconcern.Majority()).
		SetReadPreference(readpref.Primary()))
}

// document is the checkpoint as it is stored, where it is not written field by field.
type document struct {
	Epoch       int64          `bson:"epoch"`
	Holder      string         `bson:"holder"`
	UpdatedAt   time.Time      `bson:"updatedAt"`
	Token       bson.Raw       `bson:"token"`
	ClusterTime bson.Timestamp `bson:"clusterTime"`
	Recovery    *recovery      `bson:"recovery"`
	// Identity is nil in a checkpoint of a version that recorded none.
	Identity *Identity `bson:"identity"`
}

// position is where the document says to start.
func (d *document) position() Position {
	position := Position{Token: d.Token, ClusterTime: d.ClusterTime}
	if d.Recovery != nil {
		position = Position{Scan: d.Recovery.scan()}
	}
	if d.Identity != nil {
		position.CollectionUUID = d.Identity.CollectionUUID
	}
	return position
}

// Options are what a store reports to. The zero value reports to no one: every field is optional.
type Options struct {
	Logger zerolog.Logger
	// Registerer receives penstock_publisher_epoch,
	// penstock_publisher_checkpoint_age_seconds,
	// penstock_publisher_checkpoint_saves_total{result} and
	// penstock_publisher_checkpoint_window_events.
	Registerer prometheus.Registerer
}

// Store keeps the checkpoint of one stream. It is made once in a process.
type Store struct {
	checkpoints Collection
	stream      string
	logger      zerolog.Logger
	metrics     *metrics
}

// NewStore makes the store of the checkpoint whose _id is stream. Make checkpoints by
// [Checkpoints].
func NewStore(checkpoints Collection, stream string, options Options) *Store {
	return &Store{
		checkpoints: checkpoints,
		stream:      stream,
		logger:      options.Logger.With().Str("component", "checkpoint").Logger(),
		metrics:     newMetrics(options.Registerer),
	}
}

// Check fails with [ErrOtherPipeline] if the checkpoint belongs to another pipeline than
// here. A checkpoint that does not exist yet belongs to nobody.
func (s *Store) Check(ctx context.Context, here Identity) error {
	found, err := s.find(ctx)
	if err != nil || found == nil || found.Identity == nil || len(found.Identity.Differences(here)) == 0 {
		return err
	}
	return newOtherPipelineError(s.stream, *found.Identity, here)
}

// Claim begins a term: it issues the next epoch, in one atomic step, and from then on
// every save of an earlier claim fails with [ErrFenced]. It is not retried: after an
// error, the epoch may be issued or not, and the next claim issues a later one.
//
// The checkpoint must be that of here, or else the claim fails with [ErrOtherPipeline]
// and changes nothing, unless adopt is the value that this error names. The comparison
// belongs to the atomic step, because the update requires the epoch that was read: every
// claim changes the epoch, and nothing but a claim changes whose the checkpoint is.
func (s *Store) Claim(ctx context.Context, holder string, here Identity, adopt string) (*Claim, error) {
	for range claimAttempts {
		found, err := s.find(ctx)
		if err != nil {
			return nil, err
		}
		adopted, err := s.judge(found, here, adopt)
		if err != nil {
			return nil, err
		}
		epoch := bson.E{Key: "epoch", Value: bson.D{{Key: "$exists", Value: false}}}
		if found != nil {
			epoch.Value = found.Epoch
		}
		var claimed document
		err = s.checkpoints.FindOneAndUpdate(ctx,
			bson.D{{Key: "_id", Value: s.stream}, epoch},
			bson.D{
				{Key: "$inc", Value: bson.D{{Key: "epoch", Value: int64(1)}}},
				{Key: "$set", Value: bson.D{
					{Key: "holder", Value: holder},
					{Key: "revision", Value: int64(0)},
					{Key: "updatedAt", Value: time.Now()},
					{Key: "identity", Value: adopted},
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
		return s.claimed(claimed, holder), nil
	}
	return nil, fmt.Errorf("claim checkpoint %s: other processes claimed it %d times meanwhile; check that all publishers of the stream share one lease", s.stream, claimAttempts)
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

// judge gives the identity that a claim records.
func (s *Store) judge(found *document, here Identity, adopt string) (Identity, error) {
	switch {
	case found == nil:
		return here, nil
	case found.Identity == nil:
		s.logger.Info().Str("stream", s.stream).Str("database", here.Database).Str("collection", here.Collection).
			Str("namespace", here.Namespace).Str("topic", here.Topic).
			Msg("checkpoint of an earlier version: recording the pipeline that it belongs to")
		return here, nil
	}
	recorded := *found.Identity
	adopted := here
	// The collection is recorded together with the position that belongs to it.
	adopted.CollectionUUID = recorded.CollectionUUID
	if len(recorded.Differences(here)) == 0 {
		return adopted, nil
	}
	other := newOtherPipelineError(s.stream, recorded, here)
	if adopt != other.Adoption {
		return Identity{}, other
	}
	if !recorded.sameSource(here) {
		// The position means nothing here: an unknown collection is scanned.
		adopted.CollectionUUID = ""
	}
	s.logger.Warn().Str("stream", s.stream).Str("differences", other.Error()).
		Msg("checkpoint adopted from another pipeline, as configured")
	return adopted, nil
}

func (s *Store) claimed(found document, holder string) *Claim {
	claim := &Claim{Epoch: found.Epoch, Position: found.position(), store: s, holder: holder}
	s.metrics.epoch.Set(float64(claim.Epoch))
	return claim
}

// Claim is one term's right to move the checkpoint.
type Claim struct {
	// Epoch is greater than that of every earlier claim, as long as the checkpoint's
	// document is not deleted.
	Epoch int64
	// Position is where the terms before came to; zero if there was none, but for its
	// CollectionUUID.
	Position Position

	store  *Store
	holder string
	// revision counts the saves.
	revision atomic.Int64
}

// Save stores p, which is not zero. It fails with [ErrFenced] where a later claim
// exists, or where the checkpoint was deleted; after any other error, p may be stored
// or not. A save that is carried out late, after a later one of the same claim,
// changes nothing.
func (c *Claim) Save(ctx context.Context, p Position) error {
	revision := c.revision.Add(1)
	update, err := updateTo(p, revision)
	if err != nil {
		return fmt.Errorf("save checkpoint %s: %w", c.store.stream, err)
	}
	result, err := c.store.checkpoints.UpdateOne(ctx, bson.D{
		{Key: "_id", Value: c.store.stream},
		{Key: "epoch", Value: c.Epoch},
		// Epochs begin anew when somebody deletes the document; holders do not.
		{Key: "holder", Value: c.holder},
		// A retry of this save must match what its first attempt wrote.
		{Key: "revision", Value: bson.D{{Key: "$lte", Value: revision}}},
	}, update)
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

// updateTo is the update that stores p.
func updateTo(p Position, revision int64) (bson.D, error) {
	set := bson.D{
		{Key: "revision", Value: revision},
		{Key: "updatedAt", Value: time.Now()},
	}
	if p.CollectionUUID != "" {
		set = append(set, bson.E{Key: "identity.collectionUUID", Value: p.CollectionUUID})
	}
	var unset bson.D
	drop := func(field string) { unset = append(unset, bson.E{Key: field, Value: ""}) }
	switch {
	case p.Scan.Active():
		set = append(set, bson.E{Key: "recovery", Value: recoveryOf(p.Scan)})
		drop("token")
	case len(p.Token) > 0:
		set = append(set, bson.E{Key: "token", Value: p.Token})
		if !p.ClusterTime.IsZero() {
			set = append(set, bson.E{Key: "clusterTime", Value: p.ClusterTime})
		}
		drop("recovery")
	case !p.ClusterTime.IsZero():
		set = append(set, bson.E{Key: "clusterTime", Value: p.ClusterTime})
		drop("token")
		drop("recovery")
	default:
		return nil, ErrNoPosition
	}
	return bson.D{{Key: "$set", Value: set}, {Key: "$unset", Value: unset}}, nil
}
