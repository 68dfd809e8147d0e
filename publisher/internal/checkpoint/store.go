package checkpoint

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// ErrFenced says that a later term has claimed the checkpoint: this one is over.
var ErrFenced = errors.New("checkpoint is claimed by a later term")

// Collection is what a store needs of a [*mongo.Collection].
type Collection interface {
	FindOneAndUpdate(ctx context.Context, filter, update any, opts ...options.Lister[options.FindOneAndUpdateOptions]) *mongo.SingleResult
	UpdateOne(ctx context.Context, filter, update any, opts ...options.Lister[options.UpdateOneOptions]) (*mongo.UpdateResult, error)
}

// Checkpoints returns the collection checkpoints of db, with majority write concern.
func Checkpoints(db *mongo.Database) *mongo.Collection { panic("pending") }

// Options are what a store reports to. The zero value reports to nobody.
type Options struct {
	Logger zerolog.Logger
	// Registerer receives penstock_publisher_epoch,
	// penstock_publisher_checkpoint_age_seconds,
	// penstock_publisher_checkpoint_saves_total{result} and
	// penstock_publisher_checkpoint_window_events.
	Registerer prometheus.Registerer
}

// Store keeps the checkpoint of one stream. It is made once in a process.
type Store struct{}

// NewStore makes the store of the checkpoint whose _id is stream.
func NewStore(checkpoints Collection, stream string, options Options) *Store { panic("pending") }

// Claim begins a term: it issues the next epoch, in one atomic step, and from then on
// every save of an earlier claim fails with [ErrFenced].
func (s *Store) Claim(ctx context.Context, holder string) (*Claim, error) { panic("pending") }

// Claim is one term's right to move the checkpoint.
type Claim struct {
	// Epoch is greater than that of every earlier claim.
	Epoch int64
	// Position is where the terms before came to; zero where there was none.
	Position Position
}

// Save stores p. It fails with [ErrFenced] where a later claim exists, or where the
// checkpoint was deleted; after any other error, p may be stored or not.
func (c *Claim) Save(ctx context.Context, p Position) error { panic("pending") }

// SaverConfig says when a saver saves. A zero field stands for its default.
type SaverConfig struct {
	// Interval is the time between two saves, default 1 s.
	Interval time.Duration
	// Events is how many acknowledged events bring a save about before the interval
	// is over, default 10,000.
	Events int
	// Timeout bounds one save, default 5 s.
	Timeout time.Duration
	// FlushTimeout bounds the last save of a term, default 2 s.
	FlushTimeout time.Duration
}

// Saver saves the low watermark of a term.
type Saver struct{}

// NewSaver makes the saver of one term.
func NewSaver(claim *Claim, watermark *Watermark, config SaverConfig) *Saver { panic("pending") }

// Run saves the low watermark, whenever it has moved, until ctx ends, and then
// returns nil. It fails with [ErrFenced] only; every other error is retried, because
// to end the term would not cure it and what is published stays right.
func (s *Saver) Run(ctx context.Context) error { panic("pending") }

// Flush saves the low watermark if it has moved since the last save. It is the last
// step of a term, after the drain, and bounds itself by FlushTimeout; ctx must not be
// the one whose end began the drain.
func (s *Saver) Flush(ctx context.Context) error { panic("pending") }
