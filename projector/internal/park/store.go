package park

import (
	"errors"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// CollectionName is the collection's name in the state database.
const CollectionName = "parked"

// In returns the collection of the markers in the state database.
func In(db *mongo.Database) *mongo.Collection {
	return db.Collection(CollectionName)
}

// ErrNotParked is returned if there is no marker to advance, because the aggregate was
// resumed or an operator has deleted the marker. The caller must load the read model
// again: perhaps the event can be applied now.
var ErrNotParked = errors.New("the aggregate is not parked")

// Key is the _id of a marker.
type Key struct {
	Projection  string `bson:"projection" json:"projection"`
	AggregateID string `bson:"aggregateId" json:"aggregateId"`
	// Generation is the generation of the projection in which the aggregate is parked.
	Generation int64 `bson:"generation" json:"generation"`
}

func keyOf(u *model.Unit) Key {
	return Key{Projection: u.Projection, AggregateID: u.AggregateID, Generation: u.Number()}
}

// The fields of a marker.
const (
	fieldID             = "_id"
	fieldProjection     = "_id.projection"
	fieldGeneration     = "_id.generation"
	fieldAggregateID    = "_id.aggregateId"
	fieldRawAggregateID = "rawAggregateId"
	fieldReason         = "reason"
	fieldError          = "error"
	fieldEventID        = "eventId"
	fieldMessageID      = "messageId"
	fieldHead           = "head"
	fieldParkedAt       = "parkedAt"
	// fieldRetryAt is the time of the next attempt to resume the aggregate. Permanent
	// markers do not have it.
	fieldRetryAt = "retryAt"
	// fieldAttempts counts the attempts to resume the aggregate without progress.
	fieldAttempts = "attempts"
	// fieldClaim identifies the attempt of a process to resume the aggregate, until retryAt.
	fieldClaim = "claim"
)

// maxKeys bounds the keys of one request.
const maxKeys = 1000

// Served is a generation of a projection that this process writes.
type Served struct {
	Projection string
	// Generation counts from 1; 0 means the first one.
	Generation int64
}

// number is the number of the generation, as in a marker's _id.
func (s Served) number() int64 {
	u := model.Unit{Generation: s.Generation}
	return u.Number()
}

// Options refine a [Store].
type Options struct {
	// Reasons are all reasons of markers, for the metric.
	Reasons []string
	// Registerer receives penstock_projector_parked_aggregates{projection,reason} and
	// penstock_projector_discarded_aggregates{projection}; nil for none.
	Registerer prometheus.Registerer
	// Logger is silent by default.
	Logger zerolog.Logger
}

// Store is the list of parked aggregates. It is safe for concurrent use.
type Store struct {
	collection mongox.Collection
	options    Options
	parked     *prometheus.GaugeVec
	discarded  *prometheus.GaugeVec
	// changed makes Run count soon. soon is signalled when an aggregate was parked that resumes
	// by itself.
	changed, soon chan struct{}
	// omitted reports the markers that cannot be read.
	omitted mongox.Omissions

	mu     sync.Mutex
	served []Served
	// counts are those of the last count.
	counts map[Group]int64
}

// NewStore makes a store on its collection.
func NewStore(c mongox.Collection, o Options) *Store {
	return &Store{
		collection: c, options: o,
		parked: obs.GaugeVec(o.Registerer, "penstock_projector_parked_aggregates",
			"Parked aggregates by projection and reason, as in the parked list (missing, conflict, unavailable and history resume by themselves), over all processes: each of them reports the same number.", "projection", "reason"),
		discarded: obs.GaugeVec(o.Registerer, "penstock_projector_discarded_aggregates",
			"Parked aggregates that an operator has discarded, by projection, over all processes: each of them reports the same number. They are not among the parked ones.", "projection"),
		changed: make(chan struct{}, 1), soon: make(chan struct{}, 1),
	}
}

// Serve replaces the generations whose parked aggregates are counted and resumed.
// Markers of other generations stay as they are.
func (s *Store) Serve(served []Served) {
	s.mu.Lock()
	before := s.served
	s.served = slices.Clone(served)
	s.mu.Unlock()
	for _, gone := range before {
		if !slices.ContainsFunc(served, func(g Served) bool { return g.Projection == gone.Projection }) {
			s.parked.DeletePartialMatch(prometheus.Labels{"projection": gone.Projection})
			s.discarded.DeletePartialMatch(prometheus.Labels{"projection": gone.Projection})
		}
	}
	s.notify()
}

// serving returns the generations that this process writes now.
func (s *Store) serving() []Served {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served
}

// Soon is signalled when this process has parked an aggregate that resumes by itself. The
// aggregate is due after the first wait.
func (s *Store) Soon() <-chan struct{} { return s.soon }

// notify makes Run count soon.
func (s *Store) notify() { signal(s.changed) }

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
