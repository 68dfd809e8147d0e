package park

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// CollectionName is the collection's name in the database of the state.
const CollectionName = "parked"

// ErrNotParked says that there is no marker to advance: an operator has deleted it.
// Look again: the event may be due to be applied.
var ErrNotParked = errors.New("the aggregate is not parked")

// Key says what is parked: an aggregate in one projection.
type Key struct {
	Projection  string `bson:"projection"`
	AggregateID string `bson:"aggregateId"`
}

// Marker is what is known of a parked aggregate.
type Marker struct {
	Key
	// Reason is one of a fixed set, Error the text of what happened.
	Reason, Error string
	// EventID is the event that failed: all before it are applied. Head is the last
	// event of the aggregate that was seen.
	EventID, Head int64
}

// maxErrorBytes bounds the text in a marker.
const maxErrorBytes = 4 << 10

// maxKeys bounds the keys of one query.
const maxKeys = 1000

// Collection is what a store needs of a [*mongo.Collection]. Its writes must be
// acknowledged by a majority and its reads be of what a majority has, on the
// primary.
type Collection interface {
	Find(ctx context.Context, filter any, opts ...options.Lister[options.FindOptions]) (*mongo.Cursor, error)
	UpdateOne(ctx context.Context, filter, update any, opts ...options.Lister[options.UpdateOneOptions]) (*mongo.UpdateResult, error)
	Aggregate(ctx context.Context, pipeline any, opts ...options.Lister[options.AggregateOptions]) (*mongo.Cursor, error)
}

// Options refine a [Store].
type Options struct {
	// Projections are those whose parked aggregates are counted, even where there are
	// none.
	Projections []string
	// Registerer receives penstock_projector_parked_aggregates{projection}; nil for
	// none.
	Registerer prometheus.Registerer
	// Logger is silent by default.
	Logger zerolog.Logger
	// Refresh is how often [Store.Run] counts; 30 s by default.
	Refresh time.Duration
}

// Store is the list of parked aggregates. It is safe for concurrent use.
type Store struct {
	collection Collection
	options    Options
	parked     *prometheus.GaugeVec
	// changed asks Run to count soon.
	changed chan struct{}
}

// NewStore makes a store on its collection.
func NewStore(c Collection, o Options) *Store {
	if o.Refresh == 0 {
		o.Refresh = 30 * time.Second
	}
	s := &Store{
		collection: c, options: o,
		parked: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "penstock_projector_parked_aggregates",
			Help: "Parked aggregates by projection, over all processes: each of them reports the same number.",
		}, []string{"projection"}),
		changed: make(chan struct{}, 1),
	}
	if o.Registerer != nil {
		o.Registerer.MustRegister(s.parked)
	}
	return s
}

// Parked gives for each key the event that it is parked at; 0 where it is not parked.
func (s *Store) Parked(ctx context.Context, keys []Key) ([]int64, error) {
	found := make(map[Key]int64)
	for rest := keys; len(rest) > 0; {
		n := min(len(rest), maxKeys)
		if err := s.lookUp(ctx, rest[:n], found); err != nil {
			return nil, fmt.Errorf("look up parked aggregates: %w", err)
		}
		rest = rest[n:]
	}
	parked := make([]int64, len(keys))
	for i, key := range keys {
		parked[i] = found[key]
	}
	return parked, nil
}

func (s *Store) lookUp(ctx context.Context, keys []Key, found map[Key]int64) error {
	cursor, err := s.collection.Find(ctx,
		bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: keys}}}},
		options.Find().SetProjection(bson.D{{Key: "eventId", Value: 1}}))
	if err != nil {
		return err
	}
	var markers []struct {
		ID      Key   `bson:"_id"`
		EventID int64 `bson:"eventId"`
	}
	if err := cursor.All(ctx, &markers); err != nil {
		return err
	}
	for _, m := range markers {
		found[m.ID] = m.EventID
	}
	return nil
}

// Park stores a marker. One of the same event stays as it is, but for its head; one
// of another event gives way, since all before the new one is applied.
func (s *Store) Park(ctx context.Context, m Marker) error {
	head := bson.D{{Key: "head", Value: m.Head}}
	result, err := s.collection.UpdateOne(ctx,
		bson.D{{Key: "_id", Value: m.Key}, {Key: "eventId", Value: m.EventID}},
		bson.D{{Key: "$max", Value: head}})
	if err == nil && result.MatchedCount == 0 {
		_, err = s.collection.UpdateOne(ctx,
			bson.D{{Key: "_id", Value: m.Key}},
			bson.D{
				{Key: "$set", Value: bson.D{
					{Key: "reason", Value: m.Reason},
					{Key: "error", Value: clip(m.Error)},
					{Key: "eventId", Value: m.EventID},
					{Key: "messageId", Value: event.MessageID(m.AggregateID, m.EventID)},
					{Key: "parkedAt", Value: time.Now()},
				}},
				{Key: "$max", Value: head},
			},
			options.UpdateOne().SetUpsert(true))
	}
	if mongox.DuplicateKeyOnID(err) {
		// Another process has just parked the same.
		return s.Advance(ctx, m.Key, m.Head)
	}
	if err != nil {
		return fmt.Errorf("park %s in %s: %w", m.AggregateID, m.Projection, err)
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return nil
}

// Advance notes that the aggregate's events up to head were acknowledged without
// being applied. It is [ErrNotParked] where there is no marker: then they must not
// be acknowledged.
func (s *Store) Advance(ctx context.Context, key Key, head int64) error {
	result, err := s.collection.UpdateOne(ctx,
		bson.D{{Key: "_id", Value: key}},
		bson.D{{Key: "$max", Value: bson.D{{Key: "head", Value: head}}}})
	switch {
	case err != nil:
		return fmt.Errorf("advance parked %s in %s: %w", key.AggregateID, key.Projection, err)
	case result.MatchedCount == 0:
		return fmt.Errorf("advance %s in %s: %w", key.AggregateID, key.Projection, ErrNotParked)
	}
	return nil
}

// clip cuts a text to what fits.
func clip(text string) string {
	if len(text) > maxErrorBytes {
		text = text[:maxErrorBytes]
	}
	return strings.ToValidUTF8(text, "")
}
