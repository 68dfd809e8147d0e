package command

import (
	"context"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
)

// spec describes a command: the function that runs it, and where it is allowed.
type spec struct {
	run func(ctx context.Context, e *Engine, r *Request, b *bsonraw.Builder) error
	// reads says that the command ends when its client disconnects.
	reads bool
	// admin restricts the command to the database admin.
	admin bool
	// transaction allows the command inside a transaction. ends says that it ends the
	// transaction.
	transaction, ends bool
	// retryable allows a transaction number outside a transaction, for a retryable write.
	retryable bool
	// Outside transactions, levels allows read concerns other than local, and writes
	// allows a write concern.
	levels, writes bool
	// touches says that the command needs an intent lock on the collection that its first
	// field names.
	touches bool
	// sharded restricts the command to a mongos.
	sharded bool
	// open allows the command on a connection that has not authenticated.
	open bool
}

// commandTable returns all commands that this server supports.
func commandTable() map[string]spec {
	return map[string]spec{
		"hello": {run: hello, reads: true, open: true}, "isMaster": {run: hello, reads: true, open: true}, "ismaster": {run: hello, reads: true, open: true},
		"saslStart": {run: saslStart, open: true}, "saslContinue": {run: saslContinue, open: true},
		"ping": {run: ping, open: true}, "buildInfo": {run: buildInfo, open: true}, "buildinfo": {run: buildInfo, open: true},
		"connectionStatus":   {run: connectionStatus, open: true},
		"configureFailPoint": {run: configureFailPoint, admin: true},
		"getParameter":       {run: getParameter, admin: true}, "getCmdLineOpts": {run: getCmdLineOpts, admin: true},
		"replSetGetStatus": {run: replSetGetStatus, admin: true}, "serverStatus": {run: serverStatus},
		"collStats": {run: collStats},

		"listDatabases": {run: listDatabases, admin: true}, "listCollections": {run: listCollections},
		"create": {run: create, writes: true}, "drop": {run: drop, writes: true}, "dropDatabase": {run: dropDatabase, writes: true},
		"renameCollection":   {run: renameCollection, admin: true, writes: true},
		"shardCollection":    {run: shardCollection, admin: true, writes: true, sharded: true},
		"addShardToZone":     {run: addShardToZone, admin: true, writes: true, sharded: true},
		"updateZoneKeyRange": {run: updateZoneKeyRange, admin: true, writes: true, sharded: true},
		"createIndexes":      {run: createIndexes, writes: true}, "listIndexes": {run: listIndexes, touches: true},
		"dropIndexes": {run: dropIndexes, writes: true}, "collMod": {run: collMod, writes: true},

		"insert":        {run: insert, touches: true, transaction: true, retryable: true, writes: true},
		"update":        {run: updateCommand, touches: true, transaction: true, retryable: true, writes: true},
		"delete":        {run: deleteCommand, touches: true, transaction: true, retryable: true, writes: true},
		"findAndModify": {run: findAndModify, touches: true, transaction: true, retryable: true, writes: true},
		"findandmodify": {run: findAndModify, touches: true, transaction: true, retryable: true, writes: true},

		"find": {run: find, touches: true, reads: true, transaction: true, levels: true}, "getMore": {run: getMore, touches: true, reads: true, transaction: true},
		"killCursors": {run: killCursors, transaction: true}, "count": {run: count, touches: true, reads: true, levels: true},
		"distinct": {run: distinct, touches: true, reads: true, transaction: true, levels: true}, "aggregate": {run: aggregateCommand, touches: true, reads: true, transaction: true, writes: true, levels: true},
		"explain": {run: explain},

		"commitTransaction": {run: commitTransaction, admin: true, transaction: true, ends: true, writes: true},
		"abortTransaction":  {run: abortTransaction, admin: true, transaction: true, ends: true, writes: true},
		"endSessions":       {run: endSessions, open: true}, "killSessions": {run: killSessions},
	}
}
