package mongoemu_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

// refusals are invalid commands with the replies of a 7.0 server; "<any>" and "<none>" are
// as in [lessons]. None of them may write anything.
var refusals = []step{
	// Names.
	{`{"insert": "c", "documents": [{"_id": 9}], "$db": "a b"}`, `{"ok": 0.0, "code": 73, "codeName": "InvalidNamespace"}`},
	{`{"find": "c", "$db": "a.b"}`, `{"ok": 0.0, "code": 73}`},
	{`{"find": "c", "$db": 1}`, `{"ok": 0.0, "code": 40571}`},
	{`{"insert": "a$b", "documents": [{"_id": 9}]}`, `{"ok": 0.0, "code": 73}`},
	{`{"insert": "system.profile", "documents": [{"_id": 9}]}`, `{"ok": 0.0, "code": 73, "errmsg": "cannot write to 'db.system.profile'"}`},
	{`{"update": "system.views", "updates": [{"q": {}, "u": {"a": 1}, "upsert": true}]}`, `{"ok": 0.0, "code": 73}`},
	{`{"findAndModify": ".c", "update": {"a": 1}, "upsert": true}`, `{"ok": 0.0, "code": 73}`},
	{`{"delete": "", "deletes": [{"q": {}, "limit": 0}]}`, `{"ok": 0.0, "code": 73}`},
	{`{"create": "system.c"}`, `{"ok": 0.0, "code": 73}`},
	{`{"create": "c."}`, `{"ok": 0.0, "code": 73}`},
	{`{"createIndexes": "system.c", "indexes": [{"key": {"a": 1}, "name": "a"}]}`, `{"ok": 0.0, "code": 73}`},
	{`{"find": 1}`, `{"ok": 0.0, "code": 73}`},

	// Fields that are unknown, missing, or of a wrong type. An error in the form of any
	// statement refuses all statements.
	{`{"insert": "c", "documents": [{"_id": 9}], "documentz": 1}`, `{"ok": 0.0, "code": 40415, "errmsg": "BSON field 'insert.documentz' is an unknown field."}`},
	{`{"insert": "c"}`, `{"ok": 0.0, "code": 40414}`},
	{`{"insert": "c", "documents": {"_id": 9}}`, `{"ok": 0.0, "code": 14, "codeName": "TypeMismatch"}`},
	{`{"insert": "c", "documents": [1]}`, `{"ok": 0.0, "code": 14}`},
	{`{"insert": "c", "documents": [{"_id": 9}], "ordered": "yes"}`, `{"ok": 0.0, "code": 14}`},
	{`{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"n": 9}}}, {"q": {"_id": 1}, "u": {"$set": {"n": 9}}, "upsrt": true}]}`, `{"ok": 0.0, "code": 40415}`},
	{`{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"n": 9}}}, {"q": {"_id": 1}, "u": {"$set": {"n": 9}}, "multi": "yes"}]}`, `{"ok": 0.0, "code": 14}`},
	{`{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"n": 9}}}, {"q": {"_id": 1}}]}`, `{"ok": 0.0, "code": 40414}`},
	{`{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"n": 9}}}, {"u": {"$set": {"n": 9}}}]}`, `{"ok": 0.0, "code": 40414}`},
	{`{"update": "c", "updates": [{"q": 1, "u": {"$set": {"n": 9}}}]}`, `{"ok": 0.0, "code": 14}`},
	{`{"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}, {"q": {"_id": 2}, "limit": 2}]}`, `{"ok": 0.0, "code": 9, "codeName": "FailedToParse"}`},
	{`{"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}, {"q": {"_id": 2}}]}`, `{"ok": 0.0, "code": 40414}`},
	{`{"findAndModify": "c", "query": {"_id": 1}, "update": {"$set": {"n": 9}}, "new": "yes"}`, `{"ok": 0.0, "code": 14}`},
	{`{"findAndModify": "c", "query": {"_id": 1}, "update": {"$set": {"n": 9}}, "remove": true}`, `{"ok": 0.0, "code": 9}`},
	{`{"findAndModify": "c", "query": {"_id": 1}}`, `{"ok": 0.0, "code": 9}`},
	{`{"find": "c", "batchsize": 1}`, `{"ok": 0.0, "code": 40415}`},
	{`{"find": "c", "limit": "1"}`, `{"ok": 0.0, "code": 14}`},
	{`{"find": "c", "limit": -1}`, `{"ok": 0.0, "code": 51024}`},
	{`{"find": "c", "singleBatch": "yes"}`, `{"ok": 0.0, "code": 14}`},
	{`{"find": "c", "sort": {"n": 2}}`, `{"ok": 0.0, "code": 15975}`},
	{`{"find": "c", "hint": "none_1"}`, `{"ok": 0.0, "code": 2, "codeName": "BadValue"}`},
	{`{"find": "c", "projection": {"a": 1, "b": 0}}`, `{"ok": 0.0, "code": 31254}`},
	{`{"find": "c", "hint": {"_id": 1}, "min": {"_id": 2}, "max": {"_id": 2}}`, `{"ok": 0.0, "code": 51175}`},
	{`{"find": "c", "hint": {"_id": 1}, "min": {"_id": "a"}, "max": {"_id": 2}}`, `{"ok": 0.0, "code": 51175}`},
	{`{"find": "c", "min": {"_id": 1}, "max": {"_id": 2}}`, `{"ok": 0.0, "code": 51173}`},
	{`{"aggregate": "c", "pipeline": [{"$sample": 3}], "cursor": {}}`, `{"ok": 0.0, "code": 28745}`},
	{`{"aggregate": "c", "pipeline": [{"$sample": {"size": "3"}}], "cursor": {}}`, `{"ok": 0.0, "code": 28746}`},
	{`{"aggregate": "c", "pipeline": [{"$sample": {"size": 0}}], "cursor": {}}`, `{"ok": 0.0, "code": 28747}`},
	{`{"aggregate": "c", "pipeline": [{"$sample": {"size": 3, "seed": 1}}], "cursor": {}}`, `{"ok": 0.0, "code": 28748}`},
	{`{"aggregate": "c", "pipeline": [{"$sample": {}}], "cursor": {}}`, `{"ok": 0.0, "code": 28749}`},
	{`{"aggregate": "c", "pipeline": []}`, `{"ok": 0.0, "code": 9}`},
	{`{"aggregate": "c", "pipeline": [{"$match": {}, "$limit": 1}], "cursor": {}}`, `{"ok": 0.0, "code": 40323}`},
	{`{"aggregate": "c", "pipeline": [{"$nope": 1}], "cursor": {}}`, `{"ok": 0.0, "code": 40324}`},
	{`{"count": "c", "query": 1}`, `{"ok": 0.0, "code": 14}`},
	{`{"distinct": "c"}`, `{"ok": 0.0, "code": 40414}`},
	{`{"find": "c", "maxTimeMS": -1}`, `{"ok": 0.0, "code": 2}`},

	// Documents that may not be stored.
	{`{"insert": "c", "documents": [{"_id": [1]}]}`, `{"ok": 1.0, "n": 0, "writeErrors": [{"index": 0, "code": 53}]}`},
	{`{"insert": "c", "documents": [{"_id": {"$regularExpression": {"pattern": "a", "options": ""}}}]}`, `{"n": 0, "writeErrors": [{"code": 53}]}`},
	{`{"insert": "c", "documents": [{"_id": {"$a": 1}}]}`, `{"n": 0, "writeErrors": [{"code": 52}]}`},
	{`{"insert": "c", "documents": [{"_id": 8, "a": 1, "_id": 9}]}`, `{"n": 0, "writeErrors": [{"code": 2}]}`},
	{`{"insert": "c", "documents": [{"a": 1, "_id": 8, "_id": 9}]}`, `{"n": 0, "writeErrors": [{"code": 2}]}`},
	{`{"update": "c", "updates": [{"q": {"_id": {"$a": 1}}, "u": {"$set": {"n": 9}}, "upsert": true}]}`, `{"n": 0, "writeErrors": [{"code": "<any>"}]}`},
	{`{"update": "c", "updates": [{"q": {"_id": [1]}, "u": {"$set": {"n": 9}}, "upsert": true}]}`, `{"n": 0, "writeErrors": [{"code": 53}]}`},

	// Updates that contradict each other, or the document.
	{`{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"_id": 2, "n": 9}}]}`, `{"n": 0, "writeErrors": [{"code": 66, "errmsg": "<any>"}]}`},
	{`{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$unset": {"_id": ""}}}]}`, `{"n": 0, "writeErrors": [{"code": 66}]}`},
	{`{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"_id.a": 1}}}]}`, `{"n": 0, "writeErrors": [{"code": "<any>"}]}`},
	{`{"update": "c", "updates": [{"q": {"_id": 7}, "u": {"$set": {"_id": 8}}, "upsert": true}]}`, `{"n": 0, "writeErrors": [{"code": 66}]}`},
	{`{"update": "c", "updates": [{"q": {"_id": 1}, "u": [{"$set": {"_id": 2}}]}]}`, `{"n": 0, "writeErrors": [{"code": 66}]}`},
	{`{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 1, "a.b": 1}}}]}`, `{"n": 0, "writeErrors": [{"code": 40, "errmsg": "Updating the path 'a.b' would create a conflict at 'a'"}]}`},
	{`{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"n.x": 1}}}]}`, `{"n": 0, "writeErrors": [{"code": 28}]}`},
	{`{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$push": {"n": 1}}}]}`, `{"n": 0, "writeErrors": [{"code": 2}]}`},
	{`{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"": 1}}}]}`, `{"n": 0, "writeErrors": [{"code": 56}]}`},
	{`{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a..b": 1}}}]}`, `{"n": 0, "writeErrors": [{"code": 56}]}`},
	{`{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"$a": 1}}}]}`, `{"n": 0, "writeErrors": [{"code": 52}]}`},
	{`{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"n": 9, "$set": {"n": 9}}}]}`, `{"n": 0, "writeErrors": [{"code": 52}]}`},
	{`{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"n": 9}, "a": 9}}]}`, `{"n": 0, "writeErrors": [{"code": 9}]}`},
	{`{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": 1}}]}`, `{"n": 0, "writeErrors": [{"code": 9}]}`},
	{`{"update": "c", "updates": [{"q": {}, "u": {"n": 9}, "multi": true}]}`, `{"n": 0, "writeErrors": [{"code": 9}]}`},
	{`{"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": "1"}}}]}`, `{"n": 0, "writeErrors": [{"code": 14}]}`},

	// Indexes.
	{`{"createIndexes": "c", "indexes": []}`, `{"ok": 0.0, "code": 2}`},
	{`{"createIndexes": "c", "indexes": [{"key": {}, "name": "a"}]}`, `{"ok": 0.0, "code": 67, "codeName": "CannotCreateIndex"}`},
	{`{"createIndexes": "c", "indexes": [{"key": {"a": 0}, "name": "a"}]}`, `{"ok": 0.0, "code": 67}`},
	{`{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": ""}]}`, `{"ok": 0.0, "code": 67}`},
	{`{"createIndexes": "c", "indexes": [{"key": {"a": 1}}]}`, `{"ok": 0.0, "code": 9}`},
	{`{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a", "uniq": true}]}`, `{"ok": 0.0, "code": 197}`},
	{`{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a", "unique": "yes"}]}`, `{"ok": 0.0, "code": 14}`},
	{`{"createIndexes": "c", "indexes": [{"key": {"_id": 1}, "name": "a", "unique": true}]}`, `{"ok": 0.0, "code": 197}`},
	{`{"createIndexes": "c", "indexes": [{"key": {"a": 1, "b": 1}, "name": "a", "expireAfterSeconds": 1}]}`, `{"ok": 0.0, "code": 67}`},
	// All indexes are created or none: the first of these is valid.
	{`{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}, {"key": {"k": 1}, "name": "k", "unique": true}]}`, `{"ok": 0.0, "code": 11000}`},
	{`{"createIndexes": "new", "indexes": [{"key": {"a": 1}, "name": "a"}, {"key": {"b": 1}, "name": "a"}]}`, `{"ok": 0.0, "code": 86}`},
	{`{"dropIndexes": "c", "index": "_id_"}`, `{"ok": 0.0, "code": 72}`},
	{`{"dropIndexes": "c", "index": "none"}`, `{"ok": 0.0, "code": 27}`},

	// Concerns.
	{`{"insert": "c", "documents": [{"_id": 9}], "writeConcern": {"w": "majority", "x": 1}}`, `{"ok": 0.0, "code": 40415}`},
	{`{"insert": "c", "documents": [{"_id": 9}], "writeConcern": {"w": 51}}`, `{"ok": 0.0, "code": 9}`},
	{`{"insert": "c", "documents": [{"_id": 9}], "readConcern": {"level": "majority"}}`, `{"ok": 0.0, "code": 72}`},
	{`{"find": "c", "readConcern": {"level": "newest"}}`, `{"ok": 0.0, "code": 2}`},
	{`{"find": "c", "writeConcern": {"w": 1}}`, `{"ok": 0.0, "code": 72}`},

	// Sessions and transactions: the session has none open.
	{`{"insert": "c", "documents": [{"_id": 9}], "lsid": {"id": 1}}`, `{"ok": 0.0, "code": "<any>"}`},
	{`{"insert": "c", "documents": [{"_id": 9}], "lsid": "LSID", "txnNumber": 1}`, `{"ok": 0.0, "code": 14}`},
	{`{"insert": "c", "documents": [{"_id": 9}], "lsid": "LSID", "txnNumber": {"$numberLong": "-1"}}`, `{"ok": 0.0, "code": 72}`},
	{`{"insert": "c", "documents": [{"_id": 9}], "lsid": "LSID", "autocommit": false}`, `{"ok": 0.0, "code": 72}`},
	{`{"insert": "c", "documents": [{"_id": 9}], "lsid": "LSID", "txnNumber": {"$numberLong": "1"}, "autocommit": true}`, `{"ok": 0.0, "code": 72}`},
	{`{"insert": "c", "documents": [{"_id": 9}], "lsid": "LSID", "txnNumber": {"$numberLong": "1"}, "autocommit": "no"}`, `{"ok": 0.0, "code": 14}`},
	{`{"insert": "c", "documents": [{"_id": 9}], "lsid": "LSID", "txnNumber": {"$numberLong": "1"}, "autocommit": false, "startTransaction": false}`, `{"ok": 0.0, "code": 72}`},
	{`{"insert": "c", "documents": [{"_id": 9}], "lsid": "LSID", "txnNumber": {"$numberLong": "1"}, "startTransaction": true}`, `{"ok": 0.0, "code": 72}`},
	{`{"insert": "c", "documents": [{"_id": 9}], "lsid": "LSID", "txnNumber": {"$numberLong": "1"}, "autocommit": false}`, `{"ok": 0.0, "code": 251, "errorLabels": ["TransientTransactionError"]}`},
	{`{"insert": "c", "documents": [{"_id": 9}], "lsid": "LSID", "txnNumber": {"$numberLong": "1"}, "autocommit": false, "startTransaction": true, "writeConcern": {"w": 1}}`, `{"ok": 0.0, "code": 72, "errorLabels": "<none>"}`},
	{`{"find": "c", "lsid": "LSID", "txnNumber": {"$numberLong": "1"}, "autocommit": false, "startTransaction": true, "readConcern": {"level": "linearizable"}}`, `{"ok": 0.0, "code": 72}`},
	{`{"insert": "c", "documents": [{"_id": 9}], "$db": "admin", "lsid": "LSID", "txnNumber": {"$numberLong": "1"}, "autocommit": false, "startTransaction": true}`, `{"ok": 0.0, "code": 263}`},
	{`{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}], "lsid": "LSID", "txnNumber": {"$numberLong": "1"}, "autocommit": false, "startTransaction": true}`, `{"ok": 0.0, "code": 263}`},
	{`{"commitTransaction": 1, "$db": "admin", "lsid": "LSID", "txnNumber": {"$numberLong": "1"}, "autocommit": false}`, `{"ok": 0.0, "code": 251, "errorLabels": ["TransientTransactionError"]}`},
	{`{"commitTransaction": 1, "lsid": "LSID", "txnNumber": {"$numberLong": "1"}, "autocommit": false}`, `{"ok": 0.0, "code": 13, "codeName": "Unauthorized"}`},
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	s, client := start(t, mongoemu.Config{})
	c := client.Database("db").Collection("c")
	insertOne(t, c, "_id", 1, "n", 1, "k", "same")
	insertOne(t, c, "_id", 2, "n", 2, "k", "same")
	raw := dialRaw(t, s)
	entries := s.OplogEntries()
	for _, refusal := range refusals {
		refusal.command = strings.ReplaceAll(refusal.command, `"LSID"`, `{"id": {"$binary": {"base64": "AAAAAAAAAAAAAAAAAAAAAA==", "subType": "04"}}}`)
		refusal.run(t, raw, "db")
		if n := s.OplogEntries(); n != entries {
			t.Errorf("%s: it has written", refusal.command)
			entries = n
		}
	}
	if got := raw.exchange(d("ping", 1)); get(got, "code") != int32(40571) {
		t.Errorf("without a database: %v", got)
	}
	docs := all(t, must[*mongo.Cursor](t)(c.Find(t.Context(), d())), nil)
	if got, want := relaxed(t, docs), `[{"_id":1,"n":1,"k":"same"} {"_id":2,"n":2,"k":"same"}]`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if names := must[[]string](t)(client.Database("db").ListCollectionNames(t.Context(), d())); fmt.Sprint(names) != "[c]" {
		t.Errorf("%v", names)
	}
}

// A list in a filter can be as long as a document.
func TestCommandIsAtMostAsLargeAsADocument(t *testing.T) {
	t.Parallel()
	_, client := start(t, mongoemu.Config{})
	c := client.Database("db").Collection("c")
	ids := func(n int) bson.D {
		return d("_id", d("$in", slices.Repeat(bson.A{strings.Repeat("x", 1<<20)}, n)))
	}
	_, err := c.CountDocuments(t.Context(), ids(15))
	if err != nil {
		t.Error(err)
	}
	_, err = c.CountDocuments(t.Context(), ids(17))
	wantCode(t, err, 10334, "Size must be between 0 and 16793600(16MB) First element: aggregate")
}

// A document of 180 levels can be stored, and one of 181 cannot. Empty subdocuments do not count.
func TestDocumentsNestAtMost180Levels(t *testing.T) {
	t.Parallel()
	s, _ := start(t, mongoemu.Config{})
	raw := dialRaw(t, s)
	nested := func(levels int, innermost any) any {
		for range levels {
			innermost = d("a", innermost)
		}
		return innermost
	}
	insert := func(doc any) bson.D { return d("insert", "c", "documents", bson.A{doc}) }
	update := func(id int, u any) bson.D {
		return d("update", "c", "updates", bson.A{d("q", d("_id", id), "u", u, "upsert", true)})
	}
	for name, command := range map[string]bson.D{
		"insert": insert(nested(180, 1)), "insert with an empty subdocument": insert(nested(180, d())),
		"upsert": update(1, d("$set", d("e", nested(179, 1)))), "replacement": update(2, nested(180, bson.A{})),
	} {
		if reply := raw.run("db", command); get(reply, "n") != int32(1) || get(reply, "writeErrors") != nil {
			t.Errorf("%s of 180 levels: %v", name, reply)
		}
	}
	for name, command := range map[string]bson.D{
		"insert": insert(nested(181, 1)), "insert of an array": insert(nested(180, bson.A{1})),
		"upsert": update(3, d("$set", d("e", nested(180, 1)))), "update": update(1, d("$set", d("e.a", nested(179, 1)))),
		"replacement": update(2, nested(181, 1)), "pipeline": update(2, bson.A{d("$set", d("e", d("$literal", nested(180, 1))))}),
	} {
		reply := raw.run("db", command)
		if errs, _ := get(reply, "writeErrors").(bson.A); len(errs) != 1 || get(errs[0].(bson.D), "code") != int32(15) {
			t.Errorf("%s of 181 levels: %v, want Overflow", name, reply)
		}
	}
}
