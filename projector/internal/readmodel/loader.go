package readmodel

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// LoaderOptions tune a [Loader]. The zero value is good.
type LoaderOptions struct {
	// MaxKeys bounds one query; default 1,000.
	MaxKeys int
	// Queue bounds the keys that wait; beyond it Load blocks. Default 10,000.
	Queue int
	// Registerer may be nil: no metrics then.
	Registerer prometheus.Registerer
}

// Loader reads the states of many sessions in few queries. Run must be running for
// Load to return.
type Loader struct{}

// NewLoader makes a loader from that database.
func NewLoader(db *mongo.Database, o LoaderOptions) *Loader { panic("pending") }

// Run answers until ctx ends, and returns when all it started has ended.
func (l *Loader) Run(ctx context.Context) error { panic("pending") }

// Load gives the state of each key, in the order given. An error is transient, the
// context's, or that Run has ended.
func (l *Loader) Load(ctx context.Context, keys []Key) ([]State, error) { panic("pending") }
