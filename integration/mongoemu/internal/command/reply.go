package command

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
)

// success completes the reply of a successful command. In a transaction, the reply of a
// mongos contains a token with which any mongos can commit the transaction.
func (e *Engine) success(r *Request, b *bsonraw.Builder) []byte {
	if e.Sharded && r.autocommit != nil {
		b.Start("recoveryToken").String("recoveryShardId", shardName).End()
	}
	b.Double("ok", 1)
	e.times(r, b)
	return b.Bytes()
}

// failure returns the reply of a failed command. labels replace the labels that the
// server would send, unless labels is nil.
func (e *Engine) failure(r *Request, err *mongoerr.Error, labels []string) []byte {
	if labels == nil {
		labels = r.labels(err.Code)
	}
	b := bsonraw.NewBuilder(256)
	if len(labels) > 0 {
		b.Strings("errorLabels", labels...)
	}
	b.Double("ok", 0)
	b.String("errmsg", err.Message)
	b.Int32("code", int32(err.Code))
	b.String("codeName", err.Code.Name())
	if err.Info != nil {
		b.Document("errInfo", err.Info)
	}
	if err.KeyPattern != nil {
		b.Document("keyPattern", err.KeyPattern).Document("keyValue", err.KeyValue)
	}
	if err.Code.StateChange() {
		e.topologyVersion(b)
	}
	e.times(r, b)
	return b.Bytes()
}

var noSignature = make([]byte, 20)

// times adds the cluster time and the operation time. For a command that reads what a majority
// has, the latter is that of the newest write that a majority has (computeOperationTime in
// service_entry_point_common.cpp).
func (e *Engine) times(r *Request, b *bsonraw.Builder) {
	operation := e.Store.OperationTime()
	if r.readLevel == "majority" || r.changes {
		operation = e.Store.Log().NewestVisible()
	}
	cluster := e.Store.Clock().Last()
	if operation.After(cluster) {
		cluster = operation
	}
	b.Start("$clusterTime").Timestamp("clusterTime", cluster)
	b.Start("signature").Binary("hash", 0, noSignature).Int64("keyId", 0).End()
	b.End()
	b.Timestamp("operationTime", operation)
}

// labels returns the error labels of a code. They depend on the command and its
// transaction.
func (r *Request) labels(code mongoerr.Code) []string {
	var labels []string
	inTransaction := r.number != nil && r.autocommit != nil
	switch {
	case inTransaction && transient(code, r.command.ends):
		return []string{mongoerr.LabelTransientTransaction}
	case r.number != nil && (!inTransaction || r.command.ends) && code.Retryable():
		labels = append(labels, mongoerr.LabelRetryableWrite)
		if r.unwritten() {
			labels = append(labels, mongoerr.LabelNoWritesPerformed)
		}
		return labels
	case r.changes && code.Resumable():
		return []string{mongoerr.LabelResumableChangeStream}
	case code.EndsStreams():
		return []string{mongoerr.LabelNonResumableChange}
	}
	return labels
}

// transient reports whether a transaction that failed with this code may succeed if the
// client runs it again. ends says that the commit or the abort failed.
func transient(c mongoerr.Code, ends bool) bool {
	switch c {
	case mongoerr.WriteConflict, mongoerr.SnapshotUnavailable, mongoerr.LockTimeout, 239, 250,
		mongoerr.NoSuchTransaction, mongoerr.PreparedTransactionInProgress:
		return true
	}
	return !ends && c.Retryable()
}

// writeConcern is the write concern of a command. The default is majority. A majority has
// each write as soon as it is done, unless the primary is isolated.
type writeConcern struct {
	given bool
	// primary says that the write on the primary suffices.
	primary bool
	// timeout bounds the waiting for a majority; 0 means no bound.
	timeout time.Duration
	err     *mongoerr.Error
}

func (w *writeConcern) parse(v bsonraw.Value) error {
	if v.Type != bsoncore.TypeEmbeddedDocument {
		return mongoerr.New(mongoerr.TypeMismatch, "writeConcern must be an object")
	}
	w.given = true
	for it := bsonraw.NewIter(v.Data); it.Next(); {
		switch key := string(it.Key()); key {
		case "w":
			if it.Value().Type == bsoncore.TypeString {
				if mode := string(bsonraw.Text(it.Value())); mode != "majority" {
					w.err = mongoerr.New(79, "No write concern mode named '%s' found in replica set configuration", mode)
				}
				continue
			}
			n, ok := bsonraw.Int64(it.Value())
			switch {
			case !ok || n < 0 || n > 50:
				return mongoerr.New(mongoerr.FailedToParse, "w has to be a non-negative number and not greater than 50; found: %s", bsonraw.Format(it.Value()))
			case n > 1:
				w.err = mongoerr.New(mongoerr.UnsatisfiableWriteConcern, "Not enough data-bearing nodes")
			default:
				w.primary = true
			}
		case "wtimeout":
			n, _ := bsonraw.Int64(it.Value())
			w.timeout = time.Duration(n) * time.Millisecond
		case "j", "fsync", "provenance", "getLastError":
		default:
			return mongoerr.New(40415, "BSON field 'writeConcern.%s' is an unknown field.", key)
		}
	}
	return nil
}

func writeConcernError(b *bsonraw.Builder, err *mongoerr.Error, labels []string) {
	b.Start("writeConcernError").Int32("code", int32(err.Code)).String("codeName", err.Code.Name()).
		String("errmsg", err.Message).End()
	if len(labels) > 0 {
		b.Strings("errorLabels", labels...)
	}
}

// acknowledge adds the write concern error, if there is one.
func (e *Engine) acknowledge(r *Request, b *bsonraw.Builder) {
	if r.concern.err != nil && r.tx == nil {
		writeConcernError(b, r.concern.err, nil)
	}
}

// replicate waits until a majority has everything that the log contains. The server waits so
// also after a write that has changed nothing or has failed, because another write that is
// not committed yet may be the reason (LastOpFixer in write_ops_exec.cpp).
func (e *Engine) replicate(ctx context.Context, r *Request, b *bsonraw.Builder) error {
	if !r.command.writes || r.command.reads || r.tx != nil || r.concern.primary || r.concern.err != nil || r.Name == "abortTransaction" {
		return nil
	}
	waiting := ctx
	if r.concern.timeout > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, r.concern.timeout)
		defer cancel()
	}
	switch {
	case e.Store.Log().Wait(waiting, nil, e.Store.Log().End()-1):
		return nil
	case ctx.Err() == nil:
		writeConcernError(b, mongoerr.New(64, "waiting for replication timed out"), nil)
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		writeConcernError(b, mongoerr.As(store.Interrupted(ctx)), nil)
		return nil
	}
	return store.Interrupted(ctx)
}

// term is the election term of the replica set, which has had one election.
const term = 1

var electionID = bson.ObjectID{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, term}
