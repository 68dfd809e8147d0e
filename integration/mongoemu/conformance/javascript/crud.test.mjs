import assert from "node:assert/strict";
import { test } from "node:test";
import { Decimal128, Long, ObjectId, Timestamp, UUID } from "mongodb";
import { client, collection, ids } from "./server.mjs";

test("values of every type come back as they were written", async () => {
  const c = collection();
  const document = {
    _id: new ObjectId(), s: "ö😀", i: 1, d: 1.5, l: Long.fromString("9007199254740993"), b: true, n: null,
    a: [1, "x", { y: 2 }], o: { z: { y: 1 } }, t: new Date(1234567890123),
    u: new UUID(), dec: Decimal128.fromString("1.10"), r: /x/i, ts: new Timestamp({ t: 1, i: 2 }),
  };
  await c.insertOne(document);
  const got = await c.findOne({}, { promoteLongs: false });
  assert.equal(got.l.toString(), "9007199254740993");
  assert.equal(got.dec.toString(), "1.10");
  assert.deepEqual([got.s, got.t, got.o, got.r.source], [document.s, document.t, document.o, "x"]);
  assert.equal(got.u.toString(), document.u.toString());
});

test("updates and replacements report what they matched and modified", async () => {
  const c = collection();
  await c.insertMany([{ _id: 1, n: 1 }, { _id: 2, n: 1 }]);
  const pick = ({ matchedCount, modifiedCount, upsertedId }) => [matchedCount, modifiedCount, upsertedId];
  assert.deepEqual(pick(await c.updateMany({ n: 1 }, { $inc: { n: 1 } })), [2, 2, null]);
  assert.deepEqual(pick(await c.updateOne({ _id: 1 }, { $set: { n: 2 } })), [1, 0, null]);
  assert.deepEqual(pick(await c.replaceOne({ _id: 3 }, { n: 3 }, { upsert: true })), [0, 0, 3]);
  assert.deepEqual(await c.find().sort({ _id: 1 }).toArray(), [{ _id: 1, n: 2 }, { _id: 2, n: 2 }, { _id: 3, n: 3 }]);
  assert.equal((await c.deleteMany({ n: 2 })).deletedCount, 2);
});

test("a pipeline updates a document from its own fields", async () => {
  const c = collection();
  await c.insertOne({ _id: 1, a: 2, b: 3 });
  await c.updateOne({ _id: 1 }, [{ $set: { sum: { $add: ["$a", "$b"] } } }, { $unset: "a" }]);
  assert.deepEqual(await c.findOne(), { _id: 1, b: 3, sum: 5 });
});

test("findOneAndUpdate gives the version before or after", async () => {
  const c = collection();
  assert.equal(await c.findOneAndUpdate({ _id: 1 }, { $inc: { n: 1 } }), null);
  assert.deepEqual(await c.findOneAndUpdate({ _id: 1 }, { $inc: { n: 1 } }, { upsert: true, returnDocument: "after" }), { _id: 1, n: 1 });
  assert.deepEqual(await c.findOneAndUpdate({ _id: 1 }, { $inc: { n: 1 } }), { _id: 1, n: 1 });
  assert.deepEqual(await c.findOneAndReplace({ _id: 1 }, { m: 1 }, { returnDocument: "after", projection: { _id: 0 } }), { m: 1 });
  assert.deepEqual(await c.findOneAndDelete({}, { includeResultMetadata: false }), { _id: 1, m: 1 });
});

test("an ordered bulk write stops at its first error", async () => {
  const c = collection();
  const error = await c.bulkWrite([
    { insertOne: { document: { _id: 1 } } }, { insertOne: { document: { _id: 1 } } }, { insertOne: { document: { _id: 2 } } },
  ]).catch((e) => e);
  assert.equal(error.name, "MongoBulkWriteError");
  assert.equal(error.code, 11000);
  assert.equal(error.result.insertedCount, 1);
  assert.deepEqual(error.writeErrors.map((e) => [e.index, e.code]), [[1, 11000]]);
  assert.deepEqual(ids(await c.find().toArray()), [1]);
});

test("an unordered bulk write does the rest and maps its errors", async () => {
  const c = collection();
  await c.insertOne({ _id: 1, n: 1 });
  const error = await c.bulkWrite([
    { insertOne: { document: { _id: 1 } } }, { updateOne: { filter: { _id: 1 }, update: { $inc: { n: 1 } } } },
    { updateOne: { filter: { _id: 5 }, update: { $set: { n: 5 } }, upsert: true } },
    { insertOne: { document: { _id: 1 } } }, { deleteOne: { filter: { _id: 9 } } }, { insertOne: { document: { _id: 2 } } },
  ], { ordered: false }).catch((e) => e);
  assert.deepEqual(error.writeErrors.map((e) => [e.index, e.code]).sort(), [[0, 11000], [3, 11000]]);
  assert.deepEqual([error.result.insertedCount, error.result.modifiedCount, error.result.upsertedCount, error.result.deletedCount], [1, 1, 1, 0]);
  assert.deepEqual(error.result.upsertedIds, { 2: 5 });
});

test("a bulk write larger than one message is split", async () => {
  const c = collection();
  const filler = "x".repeat(1 << 20);
  const result = await c.insertMany(Array.from({ length: 60 }, (_, i) => ({ _id: i, filler })));
  assert.equal(result.insertedCount, 60);
  assert.equal(await c.countDocuments(), 60);
});

test("a cursor reads batch by batch, in order", async () => {
  const c = collection();
  await c.insertMany(Array.from({ length: 250 }, (_, i) => ({ _id: i, even: i % 2 === 0 })));
  const read = [];
  for await (const document of c.find({ even: true }, { batchSize: 20 }).sort({ _id: -1 })) read.push(document._id);
  assert.equal(read.length, 125);
  assert.deepEqual(read.slice(0, 3), [248, 246, 244]);
  assert.deepEqual(ids(await c.find().sort({ _id: 1 }).skip(10).limit(2).project({ _id: 1 }).toArray()), [10, 11]);
});

test("a closed cursor is gone on the server", async () => {
  const c = collection();
  await c.insertMany(Array.from({ length: 10 }, (_, i) => ({ _id: i })));
  const cursor = c.find({}, { batchSize: 2 });
  await cursor.next();
  const id = cursor.id;
  await cursor.close();
  await assert.rejects(client.db(c.dbName).command({ getMore: id, collection: "c" }), { code: 43, codeName: "CursorNotFound" });
});

test("killCursors says which cursors it killed and which it did not find", async () => {
  const c = collection();
  await c.insertMany(Array.from({ length: 10 }, (_, i) => ({ _id: i })));
  const database = client.db(c.dbName);
  const { cursor } = await database.command({ find: "c", batchSize: 1 }, { promoteLongs: false });
  const reply = await database.command({ killCursors: "c", cursors: [cursor.id, Long.fromNumber(42)] });
  assert.equal(reply.cursorsKilled.length, 1);
  assert.equal(reply.cursorsNotFound.length, 1);
});

test("an aggregation groups and sorts", async () => {
  const c = collection();
  await c.insertMany([{ k: "a", n: 1 }, { k: "b", n: 2 }, { k: "a", n: 3 }]);
  assert.deepEqual(
    await c.aggregate([{ $group: { _id: "$k", n: { $sum: "$n" }, most: { $max: "$n" } } }, { $sort: { _id: 1 } }]).toArray(),
    [{ _id: "a", n: 4, most: 3 }, { _id: "b", n: 2, most: 2 }]);
  assert.deepEqual(await c.distinct("k"), ["a", "b"]);
  assert.deepEqual([await c.countDocuments({ n: { $gt: 1 } }), await c.estimatedDocumentCount()], [2, 3]);
});

test("errors of the server have its codes and names", async () => {
  const c = collection();
  await c.insertOne({ _id: 1, n: 1 });
  await assert.rejects(c.insertOne({ _id: 1 }), { code: 11000, name: "MongoServerError", keyValue: { _id: 1 } });
  await assert.rejects(c.find({ $nope: 1 }).toArray(), { code: 2, codeName: "BadValue" });
  await assert.rejects(c.aggregate([{ $nope: {} }]).toArray(), { code: 40324 });
  await assert.rejects(c.updateOne({ _id: 1 }, { $set: { _id: 2 } }), { code: 66 });
  await assert.rejects(c.updateOne({ _id: 1 }, { $push: { n: 1 } }), { code: 2 });
  await assert.rejects(c.find({ n: 1 }).hint("none").toArray(), { code: 2 });
});

test("unacknowledged writes are applied", async () => {
  const c = collection();
  const result = await c.insertOne({ _id: 1 }, { writeConcern: { w: 0 } });
  assert.equal(result.acknowledged, false);
  for (let i = 0; i < 200 && (await c.countDocuments()) === 0; i++);
  assert.equal(await c.countDocuments(), 1);
});
