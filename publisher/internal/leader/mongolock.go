package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// leasesName is the collection of the locks.
const leasesName = "leader_leases"

// leaseResource names the lock in errors whose kind client-go checks.
var leaseResource = schema.GroupResource{Group: "penstock", Resource: leasesName}

// Leases returns the collection of db for a lock.
func Leases(db *mongo.Database) *mongo.Collection {
	return db.Collection(leasesName)
}

// lease is the lock's document: a resourcelock.LeaderElectionRecord. Only version and holder
// matter for the election: candidates measure the time since they saw version change, and
// compare no clocks.
type lease struct {
	ID              string    `bson:"_id,omitempty"`
	Holder          string    `bson:"holder"`
	DurationSeconds int       `bson:"durationSeconds"`
	Acquired        time.Time `bson:"acquired"`
	// Heartbeat is the time of the last renewal.
	Heartbeat   time.Time `bson:"heartbeat"`
	Transitions int       `bson:"transitions"`
	Version     int64     `bson:"version"`
}

// mongoLock is a resourcelock.Interface on a document, by compare-and-swap on its version.
// Each elector has its own.
type mongoLock struct {
	leases   mongox.Collection
	name     string
	identity string
	// seen is the document's state that an update is based on; nil before the first
	// Get or Create.
	seen *lease
}

var _ resourcelock.Interface = (*mongoLock)(nil)

// NewMongoLock makes a lock on the document of leases whose _id is name. The first leader
// creates it if it is missing. Make leases by [Leases].
func NewMongoLock(leases mongox.Collection, name, identity string) resourcelock.Interface {
	return &mongoLock{leases: leases, name: name, identity: identity}
}

// Get returns the record, and the document's bytes, which every write changes.
func (l *mongoLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := mongox.WithoutDeadline(ctx)
	defer cancel()
	raw, err := l.leases.FindOne(ctx, bson.D{{Key: "_id", Value: l.name}}).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil, apierrors.NewNotFound(leaseResource, l.name)
	}
	if err != nil {
		return nil, nil, l.failed(ctx, "read", err)
	}
	var found lease
	if err := bson.Unmarshal(raw, &found); err != nil {
		return nil, nil, fmt.Errorf("decode lease %s in collection %s of the state database, which somebody has changed: %w; stop all publishers and delete it: the next leader writes it anew", l.name, leasesName, err)
	}
	l.seen = &found
	return &resourcelock.LeaderElectionRecord{
		HolderIdentity:       found.Holder,
		LeaseDurationSeconds: found.DurationSeconds,
		AcquireTime:          metav1.NewTime(found.Acquired),
		RenewTime:            metav1.NewTime(found.Heartbeat),
		LeaderTransitions:    found.Transitions,
	}, raw, nil
}

// Create inserts the document. If another process was faster, the error is AlreadyExists.
func (l *mongoLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	ctx, cancel := mongox.WithoutDeadline(ctx)
	defer cancel()
	created := l.next(record, 1)
	_, err := l.leases.InsertOne(ctx, created)
	if mongo.IsDuplicateKeyError(err) {
		return apierrors.NewAlreadyExists(leaseResource, l.name)
	}
	if err != nil {
		return l.failed(ctx, "create", err)
	}
	l.seen = &created
	return nil
}

// Update replaces the record if it has not changed since it was last read. Otherwise the
// error is Conflict.
func (l *mongoLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if l.seen == nil {
		return fmt.Errorf("update lease %s: it was not read before", l.name)
	}
	ctx, cancel := mongox.WithoutDeadline(ctx)
	defer cancel()
	updated := l.next(record, l.seen.Version+1)
	updated.ID = ""
	result, err := l.leases.UpdateOne(ctx,
		// The filter on the holder excludes a document that was deleted, created again, and
		// has reached the same version.
		bson.D{
			{Key: "_id", Value: l.name},
			{Key: "version", Value: l.seen.Version},
			{Key: "holder", Value: l.seen.Holder},
		},
		bson.D{{Key: "$set", Value: updated}})
	if err != nil {
		return l.failed(ctx, "update", err)
	}
	if result.MatchedCount == 0 {
		return apierrors.NewConflict(leaseResource, l.name,
			fmt.Errorf("version %d is stale", l.seen.Version))
	}
	l.seen = &updated
	return nil
}

// RecordEvent does nothing: MongoDB has no events.
func (l *mongoLock) RecordEvent(string) {}

// Identity returns the holder identity that the lock writes.
func (l *mongoLock) Identity() string { return l.identity }

// Describe names the lock in logs.
func (l *mongoLock) Describe() string { return leasesName + "/" + l.name }

// failed adds the request to its error. If the context's deadline ended the request, the
// error does not wrap context.Canceled, which callers would take for a stop.
func (l *mongoLock) failed(ctx context.Context, what string, err error) error {
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return fmt.Errorf("%s lease %s: %w: %s", what, l.name, mongox.ErrNoAnswer, err.Error())
	}
	return fmt.Errorf("%s lease %s: %w", what, l.name, err)
}

func (l *mongoLock) next(record resourcelock.LeaderElectionRecord, version int64) lease {
	return lease{
		ID:              l.name,
		Holder:          record.HolderIdentity,
		DurationSeconds: record.LeaseDurationSeconds,
		Acquired:        record.AcquireTime.Time,
		Heartbeat:       record.RenewTime.Time,
		Transitions:     record.LeaderTransitions,
		Version:         version,
	}
}
