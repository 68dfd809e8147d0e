package history

import (
	"cmp"
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/eventstore"
	"github.com/penstock-cdc/penstock/pkg/poll"
	"github.com/penstock-cdc/penstock/projector/internal/engine"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Events is the event store: an [eventstore.Reader].
type Events interface {
	Open(ctx context.Context, from, until eventstore.Position, since bson.Timestamp) (eventstore.Cursor, error)
	Heads(ctx context.Context, from, until eventstore.Position, since bson.Timestamp) (*eventstore.HeadCursor, error)
	Read(document bson.Raw) (event.Event, error)
	Known(ctx context.Context, ids []string) (map[string]bson.RawValue, error)
	OfTypes(ctx context.Context, ids []bson.RawValue, types []string, since bson.Timestamp) (map[string]bson.RawValue, error)
	Split(ctx context.Context, n int) ([]eventstore.Position, error)
	Count(ctx context.Context) (int64, error)
	OperationTime(ctx context.Context) (bson.Timestamp, error)
	CheckFirstID(ctx context.Context) error
}

var _ Events = (*eventstore.Reader)(nil)

// Store loads and writes read models; see [model.Write]. An error of a whole call is transient.
type Store interface {
	engine.Store
	// Watermarks gives the state of each unit without its document.
	Watermarks(ctx context.Context, units []model.Unit) ([]model.State, error)
}

// Repairer sets documents aside that are wrong, and removes foreign ones.
type Repairer interface {
	// SetAside prevents every writer from continuing to fold from a document. It returns
	// false if the document no longer has the watermark.
	SetAside(ctx context.Context, u model.Unit, watermark int64) (bool, error)
	// RemoveForeign deletes exactly the document of an older generation that was found under
	// the unit's aggregate id, and reports whether it was still there.
	RemoveForeign(ctx context.Context, u model.Unit, foreign model.Foreign) (bool, error)
	// Remove deletes the document under the unit's aggregate id, of whatever generation.
	Remove(ctx context.Context, u model.Unit) error
	// Readmit deletes the unit's side watermark if it has this value.
	Readmit(ctx context.Context, u model.Unit, watermark int64) error
}

// Parking is the list of parked units: it knows which are parked, and parks others.
type Parking interface {
	Parked(ctx context.Context, units []model.Unit) ([]model.Position, error)
	Park(ctx context.Context, markers []model.Marker) error
}

// Options configure the workers of a process.
type Options struct {
	Events   Events
	Store    Store
	Repairer Repairer
	Parking  Parking
	Listing  *Database
	Views    Views
	Findings *FindingStore

	// Targets returns the generations that this process serves, and Engine continues their
	// aggregates from their watermarks. A command that only verifies has neither.
	Targets func() []engine.Target
	Engine  engine.Pager
	// Reachable reports whether the read models' store can be reached; nil means always. If
	// it can, a document that cannot be loaded does not hold the work up.
	Reachable func(ctx context.Context) error

	// Target returns the generation that a job verifies. Plan and Work return its error.
	Target func(ctx context.Context, projection string, generation int64) (engine.Target, error)
	// Current returns an error if the generation that a job verifies is no longer one of the
	// catalog, or is just being replaced. It is called after a read model was read and before a
	// finding about it is stored, so it must be cheap. nil means that no generation is replaced.
	Current func(ctx context.Context, projection string, generation int64) error
	// Succeeded reports whether a generation that is being built can replace a live one at any
	// time. Then the live one is not repaired. nil means never.
	Succeeded func(ctx context.Context, projection string, live int64) (bool, error)

	// Pace bounds the rate of all workers of the process; nil for no bound.
	Pace *Pace
	// Ranges is how many ranges a plan has at most; default 64, and 16 for a verification.
	Ranges int
	// FailureLimit is the share of a range's aggregates that may fail before a build ends with
	// [ErrMostlyFailing]; default 0.2. It counts once 100 have failed.
	FailureLimit float64
	// SaveEvery is the time between two saves of a range's position; default 1 s.
	SaveEvery time.Duration
	// Registerer may be nil: no metrics then.
	Registerer prometheus.Registerer
	Logger     zerolog.Logger
}

// Workers do the jobs of all kinds. Make them with [New]. They are safe for concurrent use.
type Workers struct {
	Options
	metrics *metrics
	limits  limits
	// begin is [Pace.Begin]. now and wait are the clock. Tests replace them.
	begin func(ctx context.Context, events int) (end func(), err error)
	now   func() time.Time
	wait  func(ctx context.Context, d time.Duration) error
}

// New makes workers.
func New(o Options) *Workers {
	o.FailureLimit = cmp.Or(o.FailureLimit, defaultFailureLimit)
	o.SaveEvery = cmp.Or(o.SaveEvery, defaultSaveEvery)
	if o.Pace == nil {
		o.Pace = NewPace(PaceOptions{})
	}
	return &Workers{
		Options: o, metrics: newMetrics(o.Registerer), limits: batchLimits,
		begin: o.Pace.Begin, now: time.Now, wait: poll.Wait,
	}
}
