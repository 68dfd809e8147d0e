package command_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsongen"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/command"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/fault"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/oplog"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/session"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/store"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/wire"
)

func newEngine() *command.Engine {
	s := store.New(oplog.New(oplog.Limits{}), time.Now)
	return command.New(command.Config{
		Store: s, Sessions: session.NewManager(s, time.Now, time.Minute), Faults: &fault.Set{}, Users: &command.Users{}, Now: time.Now,
		SetName: "rs0", Host: "127.0.0.1:1", Version: "7.0.0", Wire: 21,
	})
}

// words are names that have a meaning in commands.
var words = []string{
	"_id", "a", "a.b", "b", "b.0", "$a", "$$ROOT", "$eq", "$ne", "$gt", "$lt", "$in", "$nin", "$exists", "$type", "$size", "$all",
	"$elemMatch", "$mod", "$regex", "$options", "$not", "$and", "$or", "$nor", "$expr", "$set", "$unset", "$inc",
	"$min", "$max", "$currentDate", "$push", "$each", "$slice", "$position", "$sort", "$setOnInsert", "$match", "$project", "$group", "$sum", "$avg", "$first", "$last", "$limit",
	"$skip", "$count", "$replaceRoot", "newRoot", "$replaceWith", "$addFields", "$changeStream", "resumeAfter",
	"startAfter", "startAtOperationTime", "_data", "$cond", "if", "then", "else", "$ifNull", "$literal", "$add",
	"$subtract", "$multiply", "$divide", "$concat", "$arrayElemAt", "$filter", "$map", "$let", "input", "in", "vars", "as",
	"cond", "$mergeObjects", "$switch", "branches", "case", "default", "path", "key", "name", "unique", "expireAfterSeconds",
	"q", "u", "multi", "upsert", "limit", "hint", "locale", "id", "clusterTime", "level", "w", "batchSize", "$natural",
}

var fields = []string{
	"filter", "sort", "projection", "skip", "limit", "batchSize", "singleBatch", "hint", "min", "max", "collation", "query",
	"update", "remove", "new", "upsert", "fields", "pipeline", "cursor", "documents", "updates", "deletes", "ordered",
	"indexes", "index", "key", "to", "dropTarget", "collection", "cursors", "lsid", "txnNumber", "autocommit",
	"startTransaction", "readConcern", "writeConcern", "maxTimeMS", "$clusterTime", "nameOnly", "stmtId", "stmtIds",
	"topologyVersion", "maxAwaitTimeMS",
}

var names = []string{
	"hello", "isMaster", "ping", "buildInfo", "connectionStatus", "getParameter", "replSetGetStatus", "serverStatus",
	"collStats", "listDatabases", "listCollections", "create", "drop", "dropDatabase", "renameCollection",
	"createIndexes", "listIndexes", "dropIndexes", "collMod", "insert", "update", "delete", "findAndModify", "find",
	"getMore", "killCursors", "count", "distinct", "aggregate", "explain", "commitTransaction", "abortTransaction",
	"endSessions", "killSessions", "nonsense",
}

var administrative = []string{"getParameter", "replSetGetStatus", "listDatabases", "renameCollection", "commitTransaction", "abortTransaction"}

// word generates values, often documents with keys from words.
func word(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		if depth == 0 {
			if rapid.Bool().Draw(t, "text") {
				return rapid.SampledFrom(words).Draw(t, "word")
			}
			return bsongen.Scalar().Draw(t, "scalar")
		}
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			return rapid.SampledFrom(words).Draw(t, "word")
		case 1:
			return bsongen.Value(1).Draw(t, "value")
		case 2:
			return bson.A(rapid.SliceOfN(word(depth-1), 0, 3).Draw(t, "list"))
		}
		d := bson.D{}
		for range rapid.IntRange(0, 3).Draw(t, "size") {
			d = append(d, bson.E{Key: rapid.SampledFrom(words).Draw(t, "key"), Value: word(depth-1).Draw(t, "value")})
		}
		return d
	})
}

// For any command, the engine does not panic, does not return InternalError, and replies
// with a valid document.
func TestAnyCommandIsAnswered(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := newEngine()
		conn := &command.Conn{}
		for _, seed := range []bson.D{
			{{Key: "insert", Value: "a"}, {Key: "documents", Value: bson.A{bson.D{{Key: "_id", Value: 1}, {Key: "a", Value: bson.A{1, bson.D{{Key: "b", Value: 2}}}}}, bson.D{{Key: "_id", Value: 2}, {Key: "b", Value: "x"}}}}},
			{{Key: "createIndexes", Value: "a"}, {Key: "indexes", Value: bson.A{bson.D{{Key: "key", Value: bson.D{{Key: "a.b", Value: 1}}}, {Key: "name", Value: "i"}}}}},
		} {
			send(t, e, conn, seed)
		}
		for range rapid.IntRange(1, 8).Draw(t, "commands") {
			name := rapid.SampledFrom(names).Draw(t, "name")
			cmd := bson.D{{Key: name, Value: rapid.OneOf(rapid.Just[any]("a"), rapid.Just[any](1), word(2)).Draw(t, "first")}}
			for range rapid.IntRange(0, 4).Draw(t, "fields") {
				cmd = append(cmd, bson.E{Key: rapid.SampledFrom(fields).Draw(t, "field"), Value: word(3).Draw(t, "value")})
			}
			send(t, e, conn, cmd)
		}
	})
}

func send(t *rapid.T, e *command.Engine, conn *command.Conn, cmd bson.D) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	db := "db" // transactions cannot write to admin
	if slices.Contains(administrative, cmd[0].Key) {
		db = "admin"
	}
	cmd = append(cmd, bson.E{Key: "$db", Value: db})
	reply := e.Handle(ctx, ctx, conn, &wire.Message{Opcode: wire.OpMsg, Body: bsonraw.MustMarshal(cmd)}, 0)
	if err := bsonraw.Validate(reply.Body); err != nil {
		t.Fatalf("%v: %v", cmd, err)
	}
	ok, _ := bsonraw.Lookup(reply.Body, "ok")
	code, failed := bsonraw.Lookup(reply.Body, "code")
	if n, _ := bsonraw.Int64(code); failed == (bsonraw.Float64(ok) == 1) || n == 1 {
		t.Fatalf("%v: %v", cmd, bson.Raw(reply.Body))
	}
}

// doc generates a document with keys from a list and values from a generator.
func doc(keys []string, values *rapid.Generator[any]) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		d := bson.D{}
		for range rapid.IntRange(1, 2).Draw(t, "size") {
			d = append(d, bson.E{Key: rapid.SampledFrom(keys).Draw(t, "key"), Value: values.Draw(t, "value")})
		}
		return d
	})
}

var (
	paths       = []string{"_id", "a", "a.b", "b", "b.0", "a.1.b", "c", "c.d.e"}
	comparisons = []string{"$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists", "$type", "$size", "$all", "$elemMatch", "$mod", "$regex", "$not"}
	changes     = []string{"$set", "$unset", "$inc", "$min", "$max", "$currentDate", "$push", "$setOnInsert"}
	clauses     = []string{"$each", "$slice", "$position", "$sort", "x"}
	stages      = []string{"$match", "$project", "$addFields", "$set", "$unset", "$replaceRoot", "$replaceWith", "$sort", "$limit", "$skip", "$group", "$changeStream"}
	functions   = []string{"$eq", "$cmp", "$and", "$or", "$not", "$cond", "$ifNull", "$literal", "$add", "$subtract", "$multiply", "$divide", "$mod", "$abs", "$ceil", "$concat", "$toString", "$toInt", "$toLong", "$toDouble", "$toLower", "$strLenCP", "$size", "$arrayElemAt", "$first", "$last", "$in", "$concatArrays", "$isArray", "$type", "$mergeObjects", "$max", "$min", "$sum", "$avg", "$push", "$count"}
)

func operand() *rapid.Generator[any] {
	flag := rapid.SampledFrom([]any{1, -1, 0, true, "$a", "$a.b", "$$ROOT", "$b", "x", nil, bson.A{}, 1.5, int64(1) << 62})
	list := rapid.Map(rapid.SliceOfN(rapid.OneOf(flag, bsongen.Value(1)), 0, 3), func(v []any) any { return bson.A(v) })
	return rapid.OneOf(flag, list, bsongen.Value(2))
}

func filter() *rapid.Generator[any] {
	condition := rapid.OneOf(operand(), doc(comparisons, rapid.OneOf(operand(), doc(comparisons, operand()))))
	fields := doc(paths, condition)
	return rapid.OneOf(fields, doc([]string{"$and", "$or", "$nor"}, rapid.Map(rapid.SliceOfN(fields, 1, 2), func(v []any) any { return bson.A(v) })),
		doc([]string{"$expr"}, expression(2)))
}

func expression(depth int) *rapid.Generator[any] {
	if depth == 0 {
		return operand()
	}
	args := rapid.Map(rapid.SliceOfN(expression(depth-1), 0, 3), func(v []any) any { return bson.A(v) })
	call := rapid.Custom(func(t *rapid.T) any {
		return bson.D{{Key: rapid.SampledFrom(functions).Draw(t, "function"), Value: rapid.OneOf(args, expression(depth-1)).Draw(t, "args")}}
	})
	return rapid.OneOf(call, operand(), doc(paths, operand()))
}

func change() *rapid.Generator[any] {
	fields := doc(paths, rapid.OneOf(operand(), doc(clauses, operand()), doc(comparisons, operand())))
	return rapid.OneOf(doc(changes, fields), doc(paths, operand()), rapid.Map(stage(), func(v any) any { return bson.A{v} }))
}

func stage() *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		name := rapid.SampledFrom(stages).Draw(t, "stage")
		spec := rapid.OneOf(operand(), filter(), doc(paths, expression(2)), expression(2)).Draw(t, "spec")
		return bson.D{{Key: name, Value: spec}}
	})
}

// This test sends well-formed commands with random operators and operands.
func TestAnyOperatorIsAnswered(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := newEngine()
		conn := &command.Conn{}
		docs := bson.A{}
		for i := range 4 {
			docs = append(docs, append(bson.D{{Key: "_id", Value: i}}, bsongen.Document(3, bsongen.Names).Draw(t, "doc")...))
		}
		send(t, e, conn, bson.D{{Key: "createIndexes", Value: "a"}, {Key: "indexes", Value: bson.A{bson.D{{Key: "key", Value: bson.D{{Key: "a", Value: 1}, {Key: "b", Value: -1}}}, {Key: "name", Value: "i"}}}}})
		send(t, e, conn, bson.D{{Key: "insert", Value: "a"}, {Key: "documents", Value: docs}, {Key: "ordered", Value: false}})
		order := doc(paths, rapid.SampledFrom([]any{1, -1}))
		for range 6 {
			f, o := filter().Draw(t, "filter"), order.Draw(t, "order")
			switch rapid.IntRange(0, 4).Draw(t, "command") {
			case 0:
				send(t, e, conn, bson.D{{Key: "find", Value: "a"}, {Key: "filter", Value: f}, {Key: "sort", Value: o}, {Key: "projection", Value: doc(paths, expression(2)).Draw(t, "projection")}})
			case 1:
				u := bson.D{{Key: "q", Value: f}, {Key: "u", Value: change().Draw(t, "change")}, {Key: "multi", Value: rapid.Bool().Draw(t, "multi")}, {Key: "upsert", Value: rapid.Bool().Draw(t, "upsert")}}
				send(t, e, conn, bson.D{{Key: "update", Value: "a"}, {Key: "updates", Value: bson.A{u}}})
			case 2:
				send(t, e, conn, bson.D{{Key: "findAndModify", Value: "a"}, {Key: "query", Value: f}, {Key: "sort", Value: o}, {Key: "update", Value: change().Draw(t, "change")}, {Key: "new", Value: true}})
			case 3:
				pipeline := bson.A(rapid.SliceOfN(stage(), 1, 3).Draw(t, "pipeline"))
				send(t, e, conn, bson.D{{Key: "aggregate", Value: "a"}, {Key: "pipeline", Value: pipeline}, {Key: "cursor", Value: bson.D{}}})
			default:
				send(t, e, conn, bson.D{{Key: "distinct", Value: "a"}, {Key: "key", Value: rapid.SampledFrom(paths).Draw(t, "key")}, {Key: "query", Value: f}})
			}
		}
	})
}
