package mongoemu_test

import (
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

// lessons are commands with the expected parts of their replies, in order. They come from
// the replies recorded from a real replica set. "<any>" matches any value, and "<none>" means that the field must be
// absent. Other fields of the reply do not matter.
var lessons = []step{
	{`{"noSuchCommand": 1}`, `{"ok": 0.0, "code": 59, "codeName": "CommandNotFound", "errmsg": "no such command: 'noSuchCommand'"}`},
	{`{"isMaster": 1}`, `{"ok": 1.0, "ismaster": true, "setName": "rs0", "maxBsonObjectSize": 16777216, "maxMessageSizeBytes": 48000000, "maxWriteBatchSize": 100000, "logicalSessionTimeoutMinutes": 30, "readOnly": false}`},
	{`{"hello": 1}`, `{"ok": 1.0, "isWritablePrimary": true, "ismaster": "<none>", "topologyVersion": "<any>"}`},

	{`{"create": "events"}`, `{"ok": 1.0}`},
	{`{"create": "events"}`, `{"ok": 0.0, "code": 48, "codeName": "NamespaceExists"}`},
	{`{"createIndexes": "events", "indexes": [{"key": {"aggregateId": 1, "eventId": 1}, "name": "k", "unique": true}]}`, `{"createdCollectionAutomatically": false, "numIndexesBefore": 1, "numIndexesAfter": 2, "note": "<none>"}`},
	{`{"createIndexes": "events", "indexes": [{"key": {"aggregateId": 1, "eventId": 1}, "name": "k", "unique": true}]}`, `{"numIndexesBefore": 2, "numIndexesAfter": 2, "note": "all indexes already exist", "createdCollectionAutomatically": "<none>"}`},
	{`{"createIndexes": "events", "indexes": [{"key": {"aggregateId": 1, "eventId": 1}, "name": "k"}]}`, `{"ok": 0.0, "code": 85, "codeName": "IndexOptionsConflict"}`},
	{`{"createIndexes": "leases", "indexes": [{"key": {"expiresAt": 1}, "name": "ttl", "expireAfterSeconds": 0}]}`, `{"createdCollectionAutomatically": true, "numIndexesBefore": 1, "numIndexesAfter": 2}`},
	{`{"listIndexes": "nowhere"}`, `{"ok": 0.0, "code": 26, "codeName": "NamespaceNotFound"}`},
	{`{"listCollections": 1, "filter": {"name": "events"}, "nameOnly": true}`, `{"cursor": {"id": 0, "firstBatch": [{"name": "events", "type": "collection"}]}}`},

	// A write error stops an ordered batch, but not an unordered one. The successful writes
	// are counted.
	{`{"insert": "events", "documents": [{"_id": "a-1", "aggregateId": "a", "eventId": 1}, {"_id": "a-2", "aggregateId": "a", "eventId": 2}]}`, `{"n": 2, "writeErrors": "<none>", "opTime": "<any>", "electionId": "<any>"}`},
	{`{"insert": "events", "documents": [{"_id": "a-1", "aggregateId": "z", "eventId": 1}]}`, `{"ok": 1.0, "n": 0, "writeErrors": [{"index": 0, "code": 11000, "keyPattern": {"_id": 1}, "keyValue": {"_id": "a-1"}, "errmsg": "E11000 duplicate key error collection: lessons.events index: _id_ dup key: { _id: \"a-1\" }"}]}`},
	{`{"insert": "events", "documents": [{"_id": "x-1"}, {"_id": "o", "aggregateId": "a", "eventId": 2}, {"_id": "x-2"}], "ordered": true}`, `{"n": 1, "writeErrors": [{"index": 1, "code": 11000, "errmsg": "E11000 duplicate key error collection: lessons.events index: k dup key: { aggregateId: \"a\", eventId: 2 }"}]}`},
	{`{"insert": "events", "documents": [{"_id": "y-1", "aggregateId": "y"}, {"_id": "o", "aggregateId": "a", "eventId": 2}, {"_id": "y-2", "aggregateId": "y", "eventId": 2}], "ordered": false}`, `{"n": 2, "writeErrors": [{"index": 1, "code": 11000}]}`},
	{`{"insert": "events", "documents": []}`, `{"ok": 0.0, "code": 16, "codeName": "InvalidLength"}`},

	{`{"find": "events", "sort": {"aggregateId": 1, "eventId": 1}, "batchSize": 2}`, `{"cursor": {"id": "<any>", "ns": "lessons.events", "firstBatch": "<any>"}}`},
	{`{"find": "nowhere"}`, `{"cursor": {"id": 0, "ns": "lessons.nowhere", "firstBatch": []}}`},
	{`{"find": "events", "filter": {"a": {"$bogus": 1}}}`, `{"ok": 0.0, "code": 2, "codeName": "BadValue", "errmsg": "unknown operator: $bogus"}`},
	{`{"find": "events", "filter": {"$expr": {"$eq": ["$eventId", 1]}}, "limit": 1, "singleBatch": true}`, `{"cursor": {"id": 0, "firstBatch": [{"_id": "a-1", "aggregateId": "a", "eventId": 1}]}}`},
	{`{"getMore": {"$numberLong": "123"}, "collection": "events"}`, `{"ok": 0.0, "code": 43, "codeName": "CursorNotFound", "errmsg": "cursor id 123 not found"}`},
	{`{"killCursors": "events", "cursors": [{"$numberLong": "123"}]}`, `{"ok": 1.0, "cursorsKilled": [], "cursorsNotFound": [{"$numberLong": "123"}], "cursorsAlive": [], "cursorsUnknown": []}`},
	{`{"aggregate": "events", "pipeline": [{"$match": {"aggregateId": "a"}}, {"$group": {"_id": "$aggregateId", "n": {"$sum": 1}, "last": {"$max": "$eventId"}}}], "cursor": {}}`, `{"cursor": {"id": 0, "firstBatch": [{"_id": "a", "n": 2, "last": 2}]}}`},
	{`{"count": "events", "query": {"aggregateId": "a"}}`, `{"n": 2}`},
	{`{"distinct": "events", "key": "aggregateId"}`, `{"values": ["a", "y"]}`},

	// A guarded update: first an upsert, then an update, and then a stale one, which is a
	// duplicate key.
	{`{"update": "rm", "updates": [{"q": {"_id": "u1", "lastEventId": {"$lt": 1}}, "u": {"$set": {"lastEventId": 1, "name": "n"}}, "upsert": true}]}`, `{"n": 1, "nModified": 0, "upserted": [{"index": 0, "_id": "u1"}]}`},
	{`{"update": "rm", "updates": [{"q": {"_id": "u1", "lastEventId": {"$lt": 2}}, "u": {"$set": {"lastEventId": 2}}, "upsert": true}]}`, `{"n": 1, "nModified": 1, "upserted": "<none>"}`},
	{`{"update": "rm", "updates": [{"q": {"_id": "u1", "lastEventId": {"$lt": 2}}, "u": {"$set": {"lastEventId": 2}}, "upsert": true}]}`, `{"n": 0, "nModified": 0, "writeErrors": [{"index": 0, "code": 11000, "keyPattern": {"_id": 1}}]}`},
	{`{"update": "rm", "updates": [{"q": {"_id": "u1", "lastEventId": {"$gte": 2, "$lt": 3}}, "u": {"$set": {"lastEventId": 3}, "$inc": {"count": 1}, "$push": {"items": {"sku": "s"}}}}]}`, `{"n": 1, "nModified": 1}`},
	{`{"update": "rm", "updates": [{"q": {"_id": "u1", "lastEventId": {"$gte": 2, "$lt": 3}}, "u": {"$set": {"lastEventId": 3}}}]}`, `{"n": 0, "nModified": 0}`},
	{`{"update": "rm", "updates": [{"q": {"_id": "u1"}, "u": {"$set": {"lastEventId": 3}}}]}`, `{"n": 1, "nModified": 0}`},
	{`{"update": "rm", "updates": [{"q": {"_id": "v1"}, "u": {"$setOnInsert": {"created": true}, "$set": {"lastEventId": 1}}, "upsert": true}, {"q": {"_id": "u1", "lastEventId": {"$lt": 3}}, "u": {"$set": {"lastEventId": 3}}, "upsert": true}, {"q": {"_id": "v2"}, "u": {"$set": {"lastEventId": 1}}, "upsert": true}], "ordered": false}`, `{"n": 2, "nModified": 0, "upserted": [{"index": 0, "_id": "v1"}, {"index": 2, "_id": "v2"}], "writeErrors": [{"index": 1, "code": 11000}]}`},
	{`{"update": "rm", "updates": [{"q": {"_id": "p1"}, "u": [{"$replaceWith": {"$cond": [{"$gte": [{"$ifNull": ["$lastEventId", 0]}, 1]}, "$$ROOT", {"_id": "p1", "lastEventId": 1, "v": {"$literal": "$x"}}]}}], "upsert": true}]}`, `{"n": 1, "nModified": 0, "upserted": [{"index": 0, "_id": "p1"}]}`},
	{`{"update": "rm", "updates": [{"q": {"_id": "u1"}, "u": {"$set": {"_id": "other"}}}]}`, `{"writeErrors": [{"index": 0, "code": 66}]}`},
	{`{"update": "rm", "updates": [{"q": {"_id": "u1"}, "u": {"$inc": {"name": 1}}}]}`, `{"writeErrors": [{"index": 0, "code": 14}]}`},
	{`{"update": "rm", "updates": [{"q": {"_id": "u1"}, "u": {"$set": {"a": 1}, "$inc": {"a": 1}}}]}`, `{"writeErrors": [{"index": 0, "code": 40}]}`},
	{`{"update": "rm", "updates": [{"q": {"_id": "u1"}, "u": {"$nope": {"a": 1}}}]}`, `{"writeErrors": [{"index": 0, "code": 9}]}`},
	// New fields are added in the order of their names.
	{`{"update": "rm", "updates": [{"q": {"_id": "u1"}, "u": {"$unset": {"name": ""}, "$min": {"low": 0}, "$max": {"hi": 9}}}]}`, `{"n": 1, "nModified": 1}`},
	{`{"find": "rm", "filter": {"_id": {"$in": ["u1", "v1", "p1"]}}, "sort": {"_id": 1}}`, `{"cursor": {"firstBatch": [{"_id": "p1", "lastEventId": 1, "v": "$x"}, {"_id": "u1", "lastEventId": 3, "count": 1, "items": [{"sku": "s"}], "hi": 9, "low": 0}, {"_id": "v1", "created": true, "lastEventId": 1}]}}`},

	{`{"findAndModify": "rm", "query": {"_id": "ckpt"}, "update": {"$inc": {"epoch": 1}, "$set": {"holder": "h1"}}, "upsert": true, "new": true}`, `{"lastErrorObject": {"n": 1, "updatedExisting": false, "upserted": "ckpt"}, "value": {"_id": "ckpt", "epoch": 1, "holder": "h1"}}`},
	{`{"findAndModify": "rm", "query": {"_id": "ckpt"}, "update": {"$inc": {"epoch": 1}}, "new": true}`, `{"lastErrorObject": {"n": 1, "updatedExisting": true, "upserted": "<none>"}, "value": {"_id": "ckpt", "epoch": 2, "holder": "h1"}}`},
	{`{"findAndModify": "rm", "query": {"_id": "none"}, "update": {"$inc": {"epoch": 1}}}`, `{"lastErrorObject": {"n": 0, "updatedExisting": false}, "value": null}`},
	{`{"findAndModify": "rm", "query": {"_id": "v2"}, "remove": true}`, `{"lastErrorObject": {"n": 1, "updatedExisting": "<none>"}, "value": {"_id": "v2", "lastEventId": 1}}`},
	{`{"delete": "rm", "deletes": [{"q": {"_id": "v1", "lastEventId": 99}, "limit": 1}, {"q": {"_id": "v1"}, "limit": 1}]}`, `{"n": 1}`},
	{`{"update": "rm", "updates": [{"q": {"_id": "r1"}, "u": {"lastEventId": 1}, "upsert": true}]}`, `{"n": 1, "nModified": 0, "upserted": [{"index": 0, "_id": "r1"}]}`},

	{`{"aggregate": "events", "pipeline": [{"$changeStream": {"resumeAfter": {"x": 1}}}], "cursor": {}}`, `{"ok": 0.0, "code": 40647, "codeName": "Location40647"}`},
	{`{"aggregate": "events", "pipeline": [{"$changeStream": {"resumeAfter": {"_data": "8200000000"}}}], "cursor": {}}`, `{"ok": 0.0, "code": 50811}`},
	{`{"aggregate": "events", "pipeline": [{"$changeStream": {}}, {"$out": "x"}], "cursor": {}}`, `{"ok": 0.0, "code": 20, "codeName": "IllegalOperation"}`},
	{`{"aggregate": "events", "pipeline": [{"$changeStream": {}}], "cursor": {}}`, `{"cursor": {"id": "<any>", "ns": "lessons.events", "firstBatch": [], "postBatchResumeToken": {"_data": "<any>"}}}`},
	{`{"aggregate": 1, "pipeline": [{"$changeStream": {}}], "cursor": {}}`, `{"cursor": {"ns": "lessons.$cmd.aggregate", "firstBatch": []}}`},

	{`{"drop": "events"}`, `{"ok": 1.0, "nIndexesWas": 2, "ns": "lessons.events"}`},
	{`{"drop": "events"}`, `{"ok": 0.0, "code": 26, "codeName": "NamespaceNotFound", "errmsg": "ns not found"}`},
}

func TestLessons(t *testing.T) {
	t.Parallel()
	s, _ := start(t, mongoemu.Config{})
	c := dialRaw(t, s)
	for _, l := range lessons {
		got := l.run(t, c, "lessons")
		if get(got, "$clusterTime") == nil || get(got, "operationTime") == nil {
			t.Errorf("%s: no times in %v", l.command, got)
		}
	}
}

// differs returns the first part of want that a reply does not have. Documents inside a
// batch or a value must be equal as a whole.
func differs(at string, want, got any) string {
	switch want := want.(type) {
	case string:
		if want == "<any>" && got != nil {
			return ""
		}
	case int64:
		if got == int32(want) {
			return ""
		}
	case int32:
		if got == int64(want) {
			return ""
		}
	case bson.A:
		other, _ := got.(bson.A)
		if len(other) != len(want) {
			return fmt.Sprintf("%s is %v, want %v", at, got, want)
		}
		for i := range want {
			if diff := differs(fmt.Sprintf("%s[%d]", at, i), want[i], other[i]); diff != "" {
				return diff
			}
		}
		return ""
	case bson.D:
		other, ok := got.(bson.D)
		if !ok {
			return fmt.Sprintf("%s is %v, want %v", at, got, want)
		}
		for _, e := range want {
			v := get(other, e.Key)
			if e.Value == "<none>" {
				if v != nil {
					return fmt.Sprintf("%s.%s is there: %v", at, e.Key, v)
				}
				continue
			}
			if diff := differs(at+"."+e.Key, e.Value, v); diff != "" {
				return diff
			}
		}
		return ""
	}
	if !equalValues(want, got) {
		return fmt.Sprintf("%s is %v, want %v", at, got, want)
	}
	return ""
}

func equalValues(a, b any) bool {
	x, err := bson.Marshal(bson.D{{Key: "", Value: a}})
	if err != nil {
		return false
	}
	y, err := bson.Marshal(bson.D{{Key: "", Value: b}})
	return err == nil && string(x) == string(y)
}
