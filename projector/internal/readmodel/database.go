package readmodel

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// database is what this package needs of MongoDB. Writes are unordered and their
// errors are a [mongo.BulkWriteException] where the server has judged single
// operations. Reads are of what a majority has: to take an event for a duplicate
// because of a write that is later rolled back would lose it.
type database interface {
	// find gives the documents that match, with the projected fields; all of them
	// where projection is nil. limit is how many there can be.
	find(ctx context.Context, collection string, filter, projection bson.Raw, limit int) ([]bson.Raw, error)
	// page gives whole documents that match, as find does, but stops soon after they
	// have maxBytes together. Then the result is false: there are more.
	page(ctx context.Context, collection string, filter bson.Raw, limit, maxBytes int) ([]bson.Raw, bool, error)
	insert(ctx context.Context, collection string, documents []bson.Raw) error
	// update gives how many documents were matched or upserted.
	update(ctx context.Context, collection string, updates []update) (int, error)
	// remove deletes at most one document for each filter, and gives how many.
	remove(ctx context.Context, collection string, filters []bson.Raw) (int, error)
	// transaction runs do, whose context belongs to the calls above, and commits. An
	// error is do's own, in which case nothing has happened, or errUncertain.
	transaction(ctx context.Context, do func(context.Context) error) error
}

// update is one update of one document.
type update struct {
	filter, change bson.Raw
	upsert         bool
	// whole says that change is the document to put in the place, not operators.
	whole bool
}

// errUncertain says that a commit may have happened.
var errUncertain = errors.New("the outcome of the commit is unknown")

// abortTimeout bounds the abort of a transaction: the others of its collection wait
// for it.
const abortTimeout = 2 * time.Second

// mongoDatabase is MongoDB.
type mongoDatabase struct {
	db *mongo.Database
}

var _ database = mongoDatabase{}

// onMongo sees to the concerns that the guards rest on, whatever the client's are.
func onMongo(db *mongo.Database) mongoDatabase {
	return mongoDatabase{db.Client().Database(db.Name(), options.Database().
		SetReadConcern(readconcern.Majority()).
		SetReadPreference(readpref.Primary()).
		SetWriteConcern(writeconcern.Majority()))}
}

func (m mongoDatabase) find(ctx context.Context, collection string, filter, projection bson.Raw, limit int) ([]bson.Raw, error) {
	o := options.Find()
	if projection != nil {
		o.SetProjection(projection)
	}
	found, _, err := m.read(ctx, collection, filter, o, limit, math.MaxInt)
	return found, err
}

func (m mongoDatabase) page(ctx context.Context, collection string, filter bson.Raw, limit, maxBytes int) ([]bson.Raw, bool, error) {
	return m.read(ctx, collection, filter, options.Find(), limit, maxBytes)
}

// read reads documents until they have maxBytes. The server sends at most 16 MiB at
// once, so that is how much more may be in memory.
func (m mongoDatabase) read(ctx context.Context, collection string, filter bson.Raw, o *options.FindOptionsBuilder, limit, maxBytes int) ([]bson.Raw, bool, error) {
	// Without a batch size the first batch ends at 101 documents.
	cursor, err := m.db.Collection(collection).Find(ctx, filter, o.SetBatchSize(int32(limit)))
	if err != nil {
		return nil, false, fmt.Errorf("find in %s: %w", collection, err)
	}
	var found []bson.Raw
	bytes := 0
	for bytes < maxBytes && cursor.Next(ctx) {
		found = append(found, append(bson.Raw(nil), cursor.Current...))
		bytes += len(cursor.Current)
	}
	complete := bytes < maxBytes
	if err := errors.Join(cursor.Err(), cursor.Close(ctx)); err != nil {
		return nil, false, fmt.Errorf("find in %s: %w", collection, err)
	}
	return found, complete, nil
}

func (m mongoDatabase) insert(ctx context.Context, collection string, documents []bson.Raw) error {
	_, err := m.db.Collection(collection).InsertMany(ctx, documents, options.InsertMany().SetOrdered(false))
	if err != nil {
		return fmt.Errorf("insert into %s: %w", collection, err)
	}
	return nil
}

func (m mongoDatabase) update(ctx context.Context, collection string, updates []update) (int, error) {
	models := make([]mongo.WriteModel, len(updates))
	for i, u := range updates {
		if u.whole {
			models[i] = mongo.NewReplaceOneModel().SetFilter(u.filter).SetReplacement(u.change)
			continue
		}
		model := mongo.NewUpdateOneModel().SetFilter(u.filter).SetUpdate(u.change)
		if u.upsert {
			model.SetUpsert(true)
		}
		models[i] = model
	}
	result, err := m.bulk(ctx, collection, models)
	return int(result.MatchedCount + result.UpsertedCount), err
}

func (m mongoDatabase) remove(ctx context.Context, collection string, filters []bson.Raw) (int, error) {
	models := make([]mongo.WriteModel, len(filters))
	for i, filter := range filters {
		models[i] = mongo.NewDeleteOneModel().SetFilter(filter)
	}
	result, err := m.bulk(ctx, collection, models)
	return int(result.DeletedCount), err
}

// bulk runs models of one kind, so that they are one command and its errors count
// from the first of them. The result is never nil.
func (m mongoDatabase) bulk(ctx context.Context, collection string, models []mongo.WriteModel) (*mongo.BulkWriteResult, error) {
	result, err := m.db.Collection(collection).BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
	if result == nil {
		result = &mongo.BulkWriteResult{}
	}
	if err != nil {
		err = fmt.Errorf("write to %s: %w", collection, err)
	}
	return result, err
}

func (m mongoDatabase) transaction(ctx context.Context, do func(context.Context) error) error {
	session, err := m.db.Client().StartSession()
	if err != nil {
		return fmt.Errorf("start session: %w", err)
	}
	// No request: when it ends, the transaction has.
	defer session.EndSession(context.WithoutCancel(ctx))
	if err := session.StartTransaction(options.Transaction().
		SetReadConcern(readconcern.Snapshot()).SetWriteConcern(writeconcern.Majority())); err != nil {
		return fmt.Errorf("start transaction: %w", err)
	}
	if err := do(mongo.NewSessionContext(ctx, session)); err != nil {
		// A transaction that cannot be aborted now ends by itself: nothing commits it.
		ending, cancel := mongox.Timeout(context.WithoutCancel(ctx), abortTimeout)
		defer cancel()
		_ = session.AbortTransaction(ending)
		return err
	}
	err = session.CommitTransaction(ctx)
	var command mongo.CommandError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &command) && command.HasErrorLabel("TransientTransactionError") && !command.HasErrorLabel("UnknownTransactionCommitResult"):
		return fmt.Errorf("commit: %w", err)
	}
	return fmt.Errorf("%w: %w", errUncertain, err)
}

// Prepare creates the collections that are not there yet: those given
// and the one of the watermarks, so that no transaction has to. It creates no
// index, since the engine finds everything by _id. In particular the watermarks
// have no TTL: a watermark that expired would let a late event start its aggregate
// again from nothing.
func Prepare(ctx context.Context, db *mongo.Database, collections []string) error {
	for _, collection := range append([]string{watermarksCollection}, collections...) {
		if err := db.CreateCollection(ctx, collection); err != nil && !mongox.HasCode(err, mongox.CodeNamespaceExists) {
			return fmt.Errorf("create collection %s: %w", collection, err)
		}
	}
	return nil
}
