package readmodel

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// database is the part of MongoDB that this package uses. Writes are unordered, and their
// errors are a [mongo.BulkWriteException] if the server has judged single operations. Reads
// have majority read concern: an event that was taken for a duplicate because of a write
// that is rolled back later would be lost.
type database interface {
	// find gives the documents that match, with the projected fields; a nil projection
	// means all fields. limit bounds how many there can be.
	find(ctx context.Context, collection string, filter, projection bson.Raw, limit int) ([]bson.Raw, error)
	// page is find, but stops soon after the documents have maxBytes together. Then the bool
	// is false, because there are more.
	page(ctx context.Context, collection string, filter, projection bson.Raw, limit, maxBytes int) ([]bson.Raw, bool, error)
	// each calls do with each document that matches, one after the other. The document is valid
	// until do returns. An error of do is that of each.
	each(ctx context.Context, collection string, filter bson.Raw, do func(bson.Raw) error) error
	insert(ctx context.Context, collection string, documents []bson.Raw) error
	// update gives the number of documents that were matched or upserted.
	update(ctx context.Context, collection string, updates []update) (int, error)
	// remove deletes at most one document for each filter, and gives the number of deleted
	// documents.
	remove(ctx context.Context, collection string, filters []bson.Raw) (int, error)
	// exists reports whether a collection exists now. It does not take part in the transaction
	// of ctx.
	exists(ctx context.Context, collection string) (bool, error)
	// transaction runs do and commits. do must use the context that it gets for the calls
	// above. The error is do's own, if nothing has happened, or errUncertain.
	transaction(ctx context.Context, do func(context.Context) error) error
}

// update is one update of one document.
type update struct {
	filter, change bson.Raw
	upsert         bool
	// whole says that change is a replacement document instead of operators.
	whole bool
}

// errUncertain says that a commit may have happened.
var errUncertain = errors.New("the outcome of the commit is unknown")

// abortTimeout bounds the abort of a transaction. Other transactions of its collection wait
// for the abort.
const abortTimeout = 2 * time.Second

// mongoDatabase is MongoDB.
type mongoDatabase struct {
	db *mongo.Database
	// sessions are the sessions without a running transaction.
	sessions *sessions
}

// sessions are kept for the next transaction. If the server did not answer the last transaction
// of a session, it may have kept that transaction open. The next transaction in the same session
// ends it. If the process is killed, the server ends its transactions after
// transactionLifetimeLimitSeconds, a minute by default. Until then the aggregates of the
// transaction wait; others do not (sidewatermark.go).
type sessions struct {
	mu   sync.Mutex
	free []*mongo.Session
}

// take gives the session that was used last.
func (s *sessions) take(client *mongo.Client) (*mongo.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := len(s.free) - 1; last >= 0 {
		session := s.free[last]
		s.free = s.free[:last]
		return session, nil
	}
	// A transaction reads its own snapshot, so it need not wait for an earlier one.
	session, err := client.StartSession(options.Session().SetCausalConsistency(false))
	if err != nil {
		return nil, fmt.Errorf("start session: %w", err)
	}
	return session, nil
}

func (s *sessions) give(session *mongo.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = append(s.free, session)
}

var _ database = mongoDatabase{}

func onMongo(db *mongo.Database) mongoDatabase { return mongoDatabase{db, &sessions{}} }

func (m mongoDatabase) find(ctx context.Context, collection string, filter, projection bson.Raw, limit int) ([]bson.Raw, error) {
	found, _, err := m.page(ctx, collection, filter, projection, limit, math.MaxInt)
	return found, err
}

// page reads documents until they have maxBytes. The server sends at most 16 MiB at once,
// so memory can exceed maxBytes by that.
func (m mongoDatabase) page(ctx context.Context, collection string, filter, projection bson.Raw, limit, maxBytes int) ([]bson.Raw, bool, error) {
	// Without a batch size the first batch ends at 101 documents. After a batch of exactly the
	// documents that there are, the server keeps the cursor open, and the driver must ask
	// again only to hear that there are no more.
	o := options.Find().SetBatchSize(int32(limit + 1))
	if projection != nil {
		o.SetProjection(projection)
	}
	cursor, err := m.db.Collection(collection).Find(ctx, filter, o)
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

// inOrder gives the first documents that match, in the order of _id.
func (m mongoDatabase) inOrder(ctx context.Context, collection string, filter, projection bson.Raw, limit int) ([]bson.Raw, error) {
	cursor, err := m.db.Collection(collection).Find(ctx, filter, options.Find().
		SetSort(idOnly).SetProjection(projection).SetLimit(int64(limit)).SetBatchSize(int32(limit)))
	var found []bson.Raw
	if err == nil {
		err = cursor.All(ctx, &found)
	}
	if err != nil {
		return nil, fmt.Errorf("find in %s: %w", collection, err)
	}
	return found, nil
}

func (m mongoDatabase) each(ctx context.Context, collection string, filter bson.Raw, do func(bson.Raw) error) error {
	const batch = 1000
	cursor, err := m.db.Collection(collection).Find(ctx, filter, options.Find().SetBatchSize(batch))
	if err != nil {
		return fmt.Errorf("find in %s: %w", collection, err)
	}
	for err == nil && cursor.Next(ctx) {
		err = do(cursor.Current)
	}
	return errors.Join(err, cursor.Err(), cursor.Close(ctx))
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

// bulk runs operations of one kind. So they are one command, and the indexes in its errors
// count from the first operation. The result is never nil.
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

// exists waits for no lock, because a rename may wait for the transaction of ctx.
func (m mongoDatabase) exists(ctx context.Context, collection string) (bool, error) {
	return mongox.CollectionExists(mongo.NewSessionContext(ctx, nil), m.db, collection)
}

func (m mongoDatabase) transaction(ctx context.Context, do func(context.Context) error) error {
	session, err := m.sessions.take(m.db.Client())
	if err != nil {
		return err
	}
	defer m.sessions.give(session)
	if err := session.StartTransaction(options.Transaction().SetReadConcern(readconcern.Snapshot())); err != nil {
		return fmt.Errorf("start transaction: %w", err)
	}
	if err := do(mongo.NewSessionContext(ctx, session)); err != nil {
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

// Prepare creates the given collections and the package's own if they do not exist, so that
// no transaction has to. It creates no index, because the engine finds everything by
// _id, except for the parts of views ([PrepareViews]). The watermarks must have no TTL: after a watermark had expired, a late event would
// start its aggregate again from nothing.
func Prepare(ctx context.Context, db *mongo.Database, collections []string) error {
	for _, collection := range append([]string{watermarksCollection}, collections...) {
		if err := mongox.CreateCollection(ctx, db, collection); err != nil {
			return err
		}
	}
	return nil
}

// PrepareViews creates the index by which the parts of a view document are found, if it does
// not exist. It is for processes with views. Other watermarks are not in the index.
func PrepareViews(ctx context.Context, db *mongo.Database) error {
	return mongox.CreateIndex(ctx, db.Collection(watermarksCollection), bson.D{{Key: pathKeys, Value: 1}}, bson.E{Key: "sparse", Value: true})
}
