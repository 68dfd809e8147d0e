package mongoemu_test

import (
	"testing"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

// A collection's collation is the default of its indexes, including that of _id, and of its
// queries. A query may use another one.
func TestCollations(t *testing.T) {
	t.Parallel()
	s, _ := start(t, mongoemu.Config{})
	follow(t, dialRaw(t, s), []step{
		{`{"create": "c", "collation": {"locale": "en", "strength": 2}}`, `{"ok": 1.0}`},
		{`{"listCollections": 1}`, `{"cursor": {"firstBatch": [{"options": {"collation": {"locale": "en", "caseLevel": false, "caseFirst": "off", "strength": 2, "numericOrdering": false, "alternate": "non-ignorable", "maxVariable": "punct", "normalization": false, "backwards": false, "version": "57.1"}}, "idIndex": {"collation": {"locale": "en"}}}]}}`},
		{`{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a", "unique": true}, {"key": {"b": 1}, "name": "b", "unique": true, "collation": {"locale": "simple"}}]}`, `{"numIndexesAfter": 3}`},
		{`{"listIndexes": "c"}`, `{"cursor": {"firstBatch": [{"name": "_id_", "collation": {"strength": 2}}, {"name": "a", "collation": {"strength": 2}}, {"name": "b", "collation": "<none>"}]}}`},
		{`{"insert": "c", "documents": [{"_id": "x", "a": "Red", "b": "q", "n": 1}, {"_id": "y", "a": "blue", "b": "Q", "n": 2}]}`, `{"n": 2, "writeErrors": "<none>"}`},
		{`{"insert": "c", "documents": [{"_id": "X", "a": "1", "b": "1"}]}`, `{"writeErrors": [{"code": 11000, "keyPattern": {"_id": 1}}]}`},
		{`{"insert": "c", "documents": [{"_id": "z", "a": "RED", "b": "1"}]}`, `{"writeErrors": [{"code": 11000, "keyPattern": {"a": 1}}]}`},
		{`{"insert": "c", "documents": [{"_id": "z", "a": "Réd", "b": "q"}]}`, `{"writeErrors": [{"code": 11000, "keyPattern": {"b": 1}, "keyValue": {"b": "q"}}]}`},
		{`{"find": "c", "filter": {"_id": "X"}}`, `{"cursor": {"firstBatch": [{"n": 1}]}}`},
		{`{"find": "c", "filter": {"a": {"$in": ["RED", "x"]}}}`, `{"cursor": {"firstBatch": [{"n": 1}]}}`},
		{`{"find": "c", "filter": {"a": {"$gt": "BLUE"}}}`, `{"cursor": {"firstBatch": [{"n": 1}]}}`},
		{`{"find": "c", "filter": {"$expr": {"$eq": ["$a", "BLUE"]}}}`, `{"cursor": {"firstBatch": [{"n": 2}]}}`},
		{`{"find": "c", "filter": {"a": "red"}, "collation": {"locale": "simple"}}`, `{"cursor": {"firstBatch": []}}`},
		{`{"find": "c", "filter": {"_id": "X"}, "collation": {"locale": "simple"}}`, `{"cursor": {"firstBatch": []}}`},
		{`{"find": "c", "sort": {"a": 1}}`, `{"cursor": {"firstBatch": [{"a": "blue"}, {"a": "Red"}]}}`},
		{`{"find": "c", "sort": {"a": 1}, "collation": {"locale": "simple"}}`, `{"cursor": {"firstBatch": [{"a": "Red"}, {"a": "blue"}]}}`},
		{`{"count": "c", "query": {"b": "Q"}}`, `{"n": 2}`},
		{`{"count": "c", "query": {"b": "Q"}, "collation": {"locale": "simple"}}`, `{"n": 1}`},
		{`{"distinct": "c", "key": "b"}`, `{"values": ["<any>"]}`},
		{`{"aggregate": "c", "pipeline": [{"$match": {"b": "q"}}, {"$sort": {"a": -1}}, {"$limit": 1}], "cursor": {}}`, `{"cursor": {"firstBatch": [{"a": "Red"}]}}`},
		{`{"aggregate": "c", "pipeline": [{"$group": {"_id": "$b", "n": {"$sum": 1}}}], "cursor": {}}`, `{"cursor": {"firstBatch": [{"n": 2}]}}`},
		{`{"update": "c", "updates": [{"q": {"_id": "X"}, "u": {"$set": {"n": 3}}, "upsert": true}]}`, `{"nModified": 1, "upserted": "<none>"}`},
		{`{"findAndModify": "c", "query": {"a": "RED"}, "update": {"$inc": {"n": 1}}, "new": true}`, `{"value": {"_id": "x", "n": 4}}`},
		{`{"delete": "c", "deletes": [{"q": {"a": "RED"}, "limit": 0, "collation": {"locale": "simple"}}]}`, `{"n": 0}`},
		{`{"delete": "c", "deletes": [{"q": {"a": "RED"}, "limit": 0}]}`, `{"n": 1}`},

		// Other operators that compare strings are refused instead of comparing bytes.
		{`{"aggregate": "c", "pipeline": [{"$group": {"_id": 1, "n": {"$max": "$b"}}}], "cursor": {}}`, `{"code": 238}`},
		{`{"find": "c", "filter": {}, "collation": {"locale": "en", "strength": 9}}`, `{"ok": 0.0, "code": 51024}`},
		{`{"create": "d", "collation": {"locale": "tlh"}}`, `{"ok": 0.0, "code": 238}`},

		// A restore declares the index on _id.
		{`{"create": "r", "collation": {"locale": "en"}, "idIndex": {"v": 2, "key": {"_id": 1}, "name": "_id_", "ns": "db.r", "collation": {"locale": "en"}}}`, `{"ok": 1.0}`},
		{`{"create": "s", "idIndex": {"v": 2, "key": {"_id": 1}, "name": "_id_", "collation": {"locale": "en"}}}`, `{"ok": 0.0, "code": 2}`},
		{`{"create": "s", "idIndex": {"v": 2, "key": {"a": 1}, "name": "_id_"}}`, `{"ok": 0.0, "code": 2}`},
	})
}
