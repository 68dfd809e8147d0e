package generation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const (
	// Lease is how long a registration holds, by the server's clock.
	Lease = 30 * time.Second
	// Heartbeat is how often a pod renews its registration.
	Heartbeat = 5 * time.Second
	// trustMargin is how much earlier than its registration a pod's trust ends: more than
	// two clocks drift apart in a lease.
	trustMargin = 5 * time.Second
	// forget is when a registration that has expired is removed.
	forget = time.Hour
)

// ErrUntrusted says that the registration may have expired: other pods may have gone on
// without this one.
var ErrUntrusted = errors.New("the registration of this pod may have expired, because renewing it failed; events are not settled until it is renewed")

// Declaration says that a pod declares a projection with a definition.
type Declaration struct {
	Projection string `bson:"projection"`
	Hash       string `bson:"hash"`
}

// Serving says that a pod folds events into a generation.
type Serving struct {
	Projection string `bson:"projection"`
	Generation int64  `bson:"generation"`
	// Defers says that the pod settles an event without this generation if the generation
	// lacks earlier ones.
	Defers bool `bson:"defers,omitempty"`
}

// Pausing says that a pod has paused a projection's writes, for the promotion that has
// the token.
type Pausing struct {
	Projection string `bson:"projection"`
	Token      string `bson:"token"`
}

// Registration is a pod as the others see it.
type Registration struct {
	Pod       string        `bson:"_id"`
	Pipeline  string        `bson:"pipeline"`
	Host      string        `bson:"host"`
	StartedAt time.Time     `bson:"startedAt"`
	Until     time.Time     `bson:"until"`
	Declares  []Declaration `bson:"declares"`
	Serves    []Serving     `bson:"serves"`
	Paused    []Pausing     `bson:"paused"`
}

// Registry is the list of the pods of a pipeline, and this pod's registration in it. It
// is safe for concurrent use.
type Registry struct {
	collection Collection

	mu sync.Mutex
	// own is what this pod registers.
	own Registration
	// trusted is until when this pod may rely on its registration.
	trusted time.Time
}

// NewRegistry makes the registry of a pod: own has its name, pipeline, host, start and
// declarations.
func NewRegistry(c Collection, own Registration) *Registry {
	own.Serves, own.Paused = []Serving{}, []Pausing{}
	return &Registry{collection: c, own: own}
}

// Set changes what the next heartbeat registers.
func (r *Registry) Set(serves []Serving, paused []Pausing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.own.Serves, r.own.Paused = append([]Serving{}, serves...), append([]Pausing{}, paused...)
}

// Register renews the registration for [Lease], with what was set last.
func (r *Registry) Register(ctx context.Context) error {
	begun := time.Now()
	r.mu.Lock()
	own := r.own
	r.mu.Unlock()
	literal := func(v any) bson.D { return bson.D{{Key: "$literal", Value: v}} }
	_, err := r.collection.UpdateOne(ctx, bson.D{{Key: "_id", Value: own.Pod}},
		mongo.Pipeline{{{Key: "$set", Value: bson.D{
			{Key: "pipeline", Value: literal(own.Pipeline)},
			{Key: "host", Value: literal(own.Host)},
			{Key: "startedAt", Value: literal(own.StartedAt)},
			{Key: "declares", Value: literal(own.Declares)},
			{Key: "serves", Value: literal(own.Serves)},
			{Key: "paused", Value: literal(own.Paused)},
			{Key: "until", Value: bson.D{{Key: "$add", Value: bson.A{"$$NOW", Lease.Milliseconds()}}}},
		}}}}, options.UpdateOne().SetUpsert(true))
	if err != nil {
		return fmt.Errorf("register this pod: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trusted = begun.Add(Lease - trustMargin)
	return nil
}

// Trusted is nil as long as no other pod can have counted this one out, and
// [ErrUntrusted] after that.
func (r *Registry) Trusted() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Now().Before(r.trusted) {
		return nil
	}
	return ErrUntrusted
}

// Leave removes the registration. The pod must not settle anything after that.
func (r *Registry) Leave(ctx context.Context) error {
	r.mu.Lock()
	r.trusted = time.Time{}
	pod := r.own.Pod
	r.mu.Unlock()
	if _, err := r.collection.DeleteOne(ctx, bson.D{{Key: "_id", Value: pod}}); err != nil {
		return fmt.Errorf("remove the registration of this pod: %w", err)
	}
	return nil
}

// Alive gives the registrations of the pipeline that hold, by the server's clock.
func (r *Registry) Alive(ctx context.Context) ([]Registration, error) {
	cursor, err := r.collection.Find(ctx, bson.D{
		{Key: "pipeline", Value: r.own.Pipeline},
		{Key: "$expr", Value: bson.D{{Key: "$gt", Value: bson.A{"$until", "$$NOW"}}}},
	}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}))
	if err != nil {
		return nil, fmt.Errorf("read the registered pods: %w", err)
	}
	var alive []Registration
	if err := cursor.All(ctx, &alive); err != nil {
		return nil, fmt.Errorf("read the registered pods: %w", err)
	}
	return alive, nil
}

// Clean removes registrations that expired long ago.
func (r *Registry) Clean(ctx context.Context) error {
	_, err := r.collection.DeleteMany(ctx, bson.D{
		{Key: "pipeline", Value: r.own.Pipeline},
		{Key: "$expr", Value: bson.D{{Key: "$lt", Value: bson.A{bson.D{{Key: "$add", Value: bson.A{"$until", forget.Milliseconds()}}}, "$$NOW"}}}},
	})
	if err != nil {
		return fmt.Errorf("remove expired registrations: %w", err)
	}
	return nil
}
