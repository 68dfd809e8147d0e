package command_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/command"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/wire"
)

// answer runs a command on a new connection.
func answer(t *testing.T, e *command.Engine, cmd bson.D) bson.Raw {
	t.Helper()
	body := bsonraw.MustMarshal(append(cmd, bson.E{Key: "$db", Value: "db"}))
	return e.Handle(t.Context(), t.Context(), &command.Conn{}, &wire.Message{Opcode: wire.OpMsg, Body: body}, 0).Body
}

// A cursor expires if it is unused for ten minutes. Using it keeps it open, and so does a
// getMore that is waiting on it.
func TestIdleCursorsExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		insert := func(ids ...any) {
			documents := bson.A{}
			for _, id := range ids {
				documents = append(documents, bson.D{{Key: "_id", Value: id}})
			}
			answer(t, e, bson.D{{Key: "insert", Value: "c"}, {Key: "documents", Value: documents}})
		}
		insert(1, 2, 3)
		open := func() int64 {
			reply := answer(t, e, bson.D{{Key: "find", Value: "c"}, {Key: "batchSize", Value: 1}})
			return reply.Lookup("cursor", "id").Int64()
		}
		more := func(id int64, extra ...bson.E) bson.Raw {
			return answer(t, e, append(bson.D{{Key: "getMore", Value: id}, {Key: "collection", Value: "c"}, {Key: "batchSize", Value: 1}}, extra...))
		}
		idle, used := open(), open()
		stream := answer(t, e, bson.D{{Key: "aggregate", Value: "c"}, {Key: "cursor", Value: bson.D{}},
			{Key: "pipeline", Value: bson.A{bson.D{{Key: "$changeStream", Value: bson.D{}}}}}}).Lookup("cursor", "id").Int64()
		waited := make(chan bson.Raw)
		go func() { waited <- more(stream, bson.E{Key: "maxTimeMS", Value: time.Hour.Milliseconds()}) }()

		pass := func(d time.Duration) {
			time.Sleep(d) //nolint:forbidigo // virtual time
			e.ExpireCursors()
		}
		pass(9 * time.Minute)
		if reply := more(used); reply.Lookup("ok").Double() != 1 {
			t.Errorf("a cursor idle for nine minutes: %v", reply)
		}
		pass(2 * time.Minute)
		if reply := more(idle); reply.Lookup("code").Int32() != 43 {
			t.Errorf("a cursor idle for eleven minutes: %v", reply)
		}
		if reply := more(used); reply.Lookup("ok").Double() != 1 {
			t.Errorf("a cursor used two minutes ago: %v", reply)
		}
		insert(4)
		if reply := <-waited; reply.Lookup("cursor", "id").Int64() != stream {
			t.Errorf("a getMore that waited for eleven minutes: %v", reply)
		}
		if reply := more(stream, bson.E{Key: "maxTimeMS", Value: 1}); reply.Lookup("ok").Double() != 1 {
			t.Errorf("the stream that was waited on: %v", reply)
		}
		if all, streams := e.OpenCursors(); all != 2 || streams != 1 {
			t.Errorf("%d cursors are open, %d of them streams", all, streams)
		}
	})
}
