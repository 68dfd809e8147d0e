package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/lease"
	"github.com/penstock-cdc/penstock/pkg/mongox"
)

const (
	// Lease is how long a registration lasts without a renewal, by the server's clock.
	Lease = 30 * time.Second
	// Heartbeat is how often a pod renews its registration.
	Heartbeat = 5 * time.Second
	// renewTimeout bounds a renewal, so that another one can succeed before the trust ends.
	renewTimeout = 2 * Heartbeat
	// forget is how long an expired registration is kept.
	forget = time.Hour
)

// ErrUntrusted is returned if the registration may have expired, so that other pods may
// have gone on without this one.
var ErrUntrusted = errors.New("the registration of this pod may have expired, because renewing it failed; events are not settled until it is renewed")

// Declaration is a projection that a pod declares, with the hash of its definition.
type Declaration struct {
	Projection string `bson:"projection"`
	Hash       string `bson:"hash"`
}

// Serving is a generation into which a pod folds events.
type Serving struct {
	Projection string `bson:"projection"`
	Generation int64  `bson:"generation"`
	// Defers is set if the pod settles an event without this generation when the
	// generation lacks earlier events.
	Defers bool `bson:"defers,omitempty"`
}

// Pausing is a projection whose writes a pod has paused, for the promotion with the
// token.
type Pausing struct {
	Projection string `bson:"projection"`
	Token      string `bson:"token"`
}

// registration has the fields of the lease on a registration. Only its pod ever takes it.
var registration = lease.Fields{Until: "until"}

// Registration is the registration of a pod.
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
	collection mongox.Collection
	// sending is held during a renewal, so that renewals are sent one after another.
	sending sync.Mutex

	mu sync.Mutex
	// beat counts the renewals.
	beat int64
	// own is the registration of this pod.
	own Registration
	// trust lasts as long as this pod may rely on its registration.
	trust lease.Trust
	// registered is when the current registration began. Before that, others may have
	// gone on without this pod. confirmed is set once this pod has read the catalog
	// since.
	registered time.Time
	confirmed  bool
	// unsent is set if own has changes that no successful renewal has sent yet.
	unsent bool
	// failed is the error of the last renewal; nil if it succeeded.
	failed error
}

// NewRegistry makes the registry of a pod. own has the pod's name, pipeline, host,
// start and declarations.
func NewRegistry(c mongox.Collection, own Registration) *Registry {
	own.Serves, own.Paused = []Serving{}, []Pausing{}
	return &Registry{collection: c, own: own}
}

// Set changes what the next renewal registers, and reports whether there is anything new
// to register.
func (r *Registry) Set(serves []Serving, paused []Pausing) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Equal(serves, r.own.Serves) && slices.Equal(paused, r.own.Paused) && !r.unsent {
		return false
	}
	r.own.Serves, r.own.Paused = append([]Serving{}, serves...), append([]Pausing{}, paused...)
	r.unsent = true
	return true
}

// Register renews the registration for [Lease], with the values of the last Set. If the
// registration may have expired, the pod registers again, and serves nothing until it has
// read the catalog ([Registry.Confirm]) and called Set again.
func (r *Registry) Register(ctx context.Context) error {
	r.sending.Lock()
	defer r.sending.Unlock()
	begun := time.Now()
	r.mu.Lock()
	fresh := !r.trust.Holds()
	if fresh {
		r.confirmed = false
		r.own.Serves, r.own.Paused = []Serving{}, []Pausing{}
	}
	own := r.own
	r.beat++
	beat := r.beat
	unsent := r.unsent
	r.unsent = false
	r.mu.Unlock()
	renewing, cancel := mongox.Timeout(ctx, renewTimeout)
	defer cancel()
	_, err := r.collection.UpdateOne(renewing, bson.D{{Key: "_id", Value: own.Pod}},
		mongo.Pipeline{{{Key: "$replaceWith", Value: bson.D{{Key: "$cond", Value: bson.A{
			// The server may execute a renewal that timed out after a later one: it must
			// not take effect then.
			bson.D{{Key: "$gt", Value: bson.A{"$beat", beat}}},
			"$$ROOT",
			bson.D{
				{Key: "_id", Value: mongox.Literal(own.Pod)},
				{Key: "pipeline", Value: mongox.Literal(own.Pipeline)},
				{Key: "host", Value: mongox.Literal(own.Host)},
				{Key: "startedAt", Value: mongox.Literal(own.StartedAt)},
				{Key: "declares", Value: mongox.Literal(own.Declares)},
				{Key: "serves", Value: mongox.Literal(own.Serves)},
				{Key: "paused", Value: mongox.Literal(own.Paused)},
				{Key: "beat", Value: beat},
				registration.Renew(Lease),
			},
		}}}}}}, options.UpdateOne().SetUpsert(true))
	err = mongox.Explain(renewing, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = err
	if err != nil {
		r.unsent = r.unsent || unsent
		return fmt.Errorf("register this pod: %w", err)
	}
	r.trust.Extend(begun, lease.Trusted(Lease))
	if fresh {
		r.registered = time.Now()
	}
	return nil
}

// Confirm records that this pod follows the catalog of a read that began at the given
// time. It returns false if the pod has registered anew since: then it must read the
// catalog again.
func (r *Registry) Confirm(read time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.trust.Holds() && !read.Before(r.registered) {
		r.confirmed = true
	}
	return r.confirmed
}

// Trusted returns nil as long as no other pod can have seen this pod's registration
// expire, and [ErrUntrusted] after that.
func (r *Registry) Trusted() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.confirmed && r.trust.Holds() {
		return nil
	}
	return ErrUntrusted
}

// Err returns the error of the last renewal, and nil if it succeeded.
func (r *Registry) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// Leave ends the registration. The pod must not settle anything after that.
func (r *Registry) Leave(ctx context.Context) error {
	r.mu.Lock()
	r.trust.End()
	r.confirmed = false
	r.beat++
	pod, beat := r.own.Pod, r.beat
	r.mu.Unlock()
	_, err := r.collection.UpdateOne(ctx, bson.D{{Key: "_id", Value: pod}}, mongo.Pipeline{{{Key: "$set", Value: bson.D{
		{Key: "beat", Value: beat}, registration.Release(0),
	}}}})
	if err != nil {
		return fmt.Errorf("end the registration of this pod: %w", err)
	}
	return nil
}

// Succeed ends what former processes of this pod's host hold here: their registrations and
// the lease of the coordinator. It returns the names of these processes and how many leases it
// ended. They have ended if only one process at a time has that host. A registration is forgotten
// an hour after its end.
//
// The names are read first: if this process dies, its last request can be executed late, and
// must not end the registration of the next process.
func (r *Registry) Succeed(ctx context.Context) (dead []string, ended int, err error) {
	found, err := mongox.All[struct {
		Pod string `bson:"_id"`
	}](ctx, r.collection)(r.collection.Find(ctx, bson.D{
		{Key: "pipeline", Value: r.own.Pipeline},
		{Key: "host", Value: r.own.Host},
		{Key: "_id", Value: bson.D{{Key: "$ne", Value: r.own.Pod}}},
	}))
	if err != nil {
		return nil, 0, err
	}
	for _, f := range found {
		dead = append(dead, f.Pod)
		for _, holder := range []string{"_id", leaseFields.Holder} {
			result, err := r.collection.UpdateOne(ctx, bson.D{{Key: holder, Value: f.Pod}, registration.Alive()},
				mongo.Pipeline{{{Key: "$set", Value: bson.D{registration.Release(0)}}}})
			if err != nil {
				return nil, 0, err
			}
			ended += int(result.MatchedCount)
		}
	}
	return dead, ended, nil
}

// Alive returns the registrations of the pipeline that have not expired, by the server's
// clock. It fails if one of them cannot be read, because a running pod may have it: what
// depends on all pods, such as a promotion, must wait.
func (r *Registry) Alive(ctx context.Context) ([]Registration, error) {
	alive, err := mongox.All[Registration](ctx, r.collection)(r.collection.Find(ctx, bson.D{
		{Key: "pipeline", Value: r.own.Pipeline},
		registration.Alive(),
	}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}})))
	if err != nil {
		return nil, fmt.Errorf("read the registered pods: %w", err)
	}
	return alive, nil
}

// Clean removes registrations that expired more than an hour ago.
func (r *Registry) Clean(ctx context.Context) error {
	_, err := r.collection.DeleteMany(ctx, bson.D{
		{Key: "pipeline", Value: r.own.Pipeline},
		{Key: "until", Value: bson.D{{Key: "$type", Value: "date"}}},
		{Key: "$expr", Value: bson.D{{Key: "$lt", Value: bson.A{bson.D{{Key: "$add", Value: bson.A{"$until", forget.Milliseconds()}}}, mongox.Now}}}},
	})
	if err != nil {
		return fmt.Errorf("remove expired registrations: %w", err)
	}
	return nil
}
