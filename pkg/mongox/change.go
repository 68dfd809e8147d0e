package mongox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/pkg/poll"
)

const (
	// lockLimit bounds how long a command waits for an exclusive lock. Writers and
	// transactions wait behind the command meanwhile, and readers too before MongoDB 5.0.
	lockLimit = time.Second
	// lockAttempts is how often a command is sent, and lockPause the time between two
	// attempts, in which the waiting operations run.
	lockAttempts = 3
	lockPause    = time.Second
	// indexLimit bounds an index build. The limit of each attempt is indexGrowth times the
	// one before, because the server gives up an index build that exceeds its limit.
	indexLimit  = 10 * time.Hour
	indexGrowth = 8
)

// ErrLocked says that a command did not get its lock, because transactions or other
// commands held the collection during each attempt.
var ErrLocked = errors.New("a transaction or another command holds the collection")

// Change sends a command that needs an exclusive lock: create, createIndexes, collMod, drop
// or renameCollection. The server grants locks in order. Without a limit, all later
// operations on the collection would wait as long as the command, for example for the
// transaction of a process that was killed, which lives for a minute. So each attempt has a
// limit. The command may have taken effect although Change returns an error, and it is sent
// again after an attempt that may have taken effect.
//
// A majority confirms the change, whatever the server's default is: otherwise a failover
// could undo it.
func Change(ctx context.Context, db *mongo.Database, command bson.D) error {
	// With a deadline, the driver would add a second maxTimeMS.
	ctx, cancel := WithoutDeadline(ctx)
	defer cancel()
	limit, last := lockLimit, lockLimit
	if command[0].Key == "createIndexes" {
		last = indexLimit
	}
	for attempt := 1; ; attempt++ {
		err := db.RunCommand(ctx, append(slices.Clone(command),
			bson.E{Key: "maxTimeMS", Value: limit.Milliseconds()},
			bson.E{Key: "writeConcern", Value: bson.D{{Key: "w", Value: "majority"}}})).Err()
		if !HasCode(err, codeMaxTimeMSExpired) {
			return err
		}
		if attempt >= lockAttempts && limit >= last {
			return fmt.Errorf("%w: %w", ErrLocked, err)
		}
		limit = min(indexGrowth*limit, last)
		if err := poll.Wait(ctx, lockPause); err != nil {
			return err
		}
	}
}

// DropCollection drops a collection if it exists: see [Change].
func DropCollection(ctx context.Context, db *mongo.Database, name string) error {
	if err := Change(ctx, db, bson.D{{Key: "drop", Value: name}}); err != nil && !HasCode(err, CodeNamespaceNotFound) {
		return fmt.Errorf("drop collection %s: %w", name, err)
	}
	return nil
}

// CreateCollection creates a collection if it does not exist: see [Change]. It asks first,
// because create waits for the transactions of a collection that exists, too. createIndexes
// does not wait if the indexes exist.
func CreateCollection(ctx context.Context, db *mongo.Database, name string, options ...bson.E) error {
	exists, err := CollectionExists(ctx, db, name)
	if err != nil || exists {
		return err
	}
	err = Change(ctx, db, append(bson.D{{Key: "create", Value: name}}, options...))
	if err != nil && !HasCode(err, CodeNamespaceExists) {
		return fmt.Errorf("create collection %s: %w", name, err)
	}
	return nil
}

// CollectionExists reports whether a collection exists. It asks for names only, because that
// waits for no lock on a collection.
func CollectionExists(ctx context.Context, db *mongo.Database, name string) (bool, error) {
	names, err := db.ListCollectionNames(ctx, bson.D{{Key: "name", Value: name}})
	if err != nil {
		return false, fmt.Errorf("list collection %s: %w", name, err)
	}
	return len(names) > 0, nil
}

// CreateIndex creates an index if it does not exist: see [Change]. It has the name that the
// driver would give it.
func CreateIndex(ctx context.Context, collection *mongo.Collection, keys bson.D, options ...bson.E) error {
	parts := make([]string, len(keys))
	for i, key := range keys {
		parts[i] = fmt.Sprintf("%s_%v", key.Key, key.Value)
	}
	name := strings.Join(parts, "_")
	index := append(bson.D{{Key: "key", Value: keys}, {Key: "name", Value: name}}, options...)
	if err := Change(ctx, collection.Database(), bson.D{{Key: "createIndexes", Value: collection.Name()}, {Key: "indexes", Value: bson.A{index}}}); err != nil {
		return fmt.Errorf("create the index %s of collection %s: %w", name, collection.Name(), err)
	}
	return nil
}
