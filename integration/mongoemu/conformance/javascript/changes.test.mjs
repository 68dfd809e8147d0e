import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { client, collection, connect, failCommand } from "./server.mjs";

const tick = 50; // ms that an idle stream waits at the server

// opened gives a change stream that the server has opened already.
async function opened(source, pipeline = [], options = {}) {
  const stream = source.watch(pipeline, { maxAwaitTimeMS: tick, ...options });
  assert.equal(await stream.tryNext(), null);
  return stream;
}

test("a change stream shows each kind of change", async () => {
  const c = collection();
  const stream = await opened(c);
  await c.insertOne({ _id: 1, n: 1, gone: 1 });
  await c.updateOne({ _id: 1 }, { $set: { n: 2 }, $unset: { gone: 1 } });
  await c.replaceOne({ _id: 1 }, { n: 3 });
  await c.deleteOne({ _id: 1 });
  const events = [];
  for (let i = 0; i < 4; i++) events.push(await stream.next());
  assert.deepEqual(events.map((e) => e.operationType), ["insert", "update", "replace", "delete"]);
  assert.deepEqual(events[0].fullDocument, { _id: 1, n: 1, gone: 1 });
  assert.deepEqual([events[1].updateDescription.updatedFields, events[1].updateDescription.removedFields], [{ n: 2 }, ["gone"]]);
  assert.deepEqual(events[3].documentKey, { _id: 1 });
  await stream.close();
});

test("a change stream filters and projects", async () => {
  const c = collection();
  const stream = await opened(c, [{ $match: { operationType: "insert", "fullDocument.n": { $gt: 1 } } }, { $project: { n: "$fullDocument.n" } }]);
  await c.insertMany([{ n: 1 }, { n: 2 }, { n: 3 }]);
  assert.deepEqual([(await stream.next()).n, (await stream.next()).n], [2, 3]);
  await stream.close();
});

test("updateLookup gives the whole document", async () => {
  const c = collection();
  await c.insertOne({ _id: 1, a: 1 });
  const stream = await opened(c, [], { fullDocument: "updateLookup" });
  await c.updateOne({ _id: 1 }, { $set: { b: 2 } });
  assert.deepEqual((await stream.next()).fullDocument, { _id: 1, a: 1, b: 2 });
  await stream.close();
});

test("a stream resumes after a token without a lost or repeated event", async () => {
  const c = collection();
  const stream = await opened(c);
  await c.insertMany(Array.from({ length: 10 }, (_, i) => ({ _id: i })));
  let token;
  for (let i = 0; i < 4; i++) token = (await stream.next())._id;
  await stream.close();
  for (const option of ["resumeAfter", "startAfter"]) {
    const again = c.watch([], { [option]: token });
    const read = [];
    for (let i = 4; i < 10; i++) read.push((await again.next()).documentKey._id);
    assert.deepEqual(read, [4, 5, 6, 7, 8, 9]);
    await again.close();
  }
});

test("a stream goes on by itself after its cursor was killed", async () => {
  const c = collection();
  const stream = await opened(c);
  await c.insertOne({ _id: 1 });
  assert.equal((await stream.next()).documentKey._id, 1);
  const { cursorsKilled } = await client.db(c.dbName).command({ killCursors: "c", cursors: [stream.cursor.id] });
  assert.equal(cursorsKilled.length, 1);
  await c.insertOne({ _id: 2 });
  assert.equal((await stream.next()).documentKey._id, 2);
  await stream.close();
});

test("a stream goes on by itself after a resumable error", async () => {
  const appName = randomUUID();
  const own = connect({ appName });
  const c = collection(own);
  const stream = await opened(c);
  await c.insertOne({ _id: 1 });
  assert.equal((await stream.next()).documentKey._id, 1);
  await failCommand(appName, { times: 1 }, { failCommands: ["getMore"], errorCode: 11602, errorLabels: ["ResumableChangeStreamError"] });
  await c.insertOne({ _id: 2 });
  assert.equal((await stream.next()).documentKey._id, 2);
  await failCommand(appName, { times: 1 }, { failCommands: ["getMore"], closeConnection: true });
  await c.insertOne({ _id: 3 });
  assert.equal((await stream.next()).documentKey._id, 3);
  await stream.close();
});

test("lost history ends a stream", async () => {
  const appName = randomUUID();
  const own = connect({ appName });
  const c = collection(own);
  const stream = await opened(c);
  await failCommand(appName, { times: 1 }, { failCommands: ["getMore"], errorCode: 286 });
  await assert.rejects(stream.next(), { code: 286, codeName: "ChangeStreamHistoryLost" });
  assert.equal(stream.closed, true);
});

test("a rename ends a collection's stream, and startAfter goes on behind it", async () => {
  const c = collection();
  await c.insertOne({ _id: 0 });
  const stream = await opened(c);
  await c.rename("moved");
  const renamed = await stream.next();
  assert.deepEqual([renamed.operationType, renamed.to.coll], ["rename", "moved"]);
  const invalidated = await stream.next();
  assert.equal(invalidated.operationType, "invalidate");
  await assert.rejects(c.watch([], { resumeAfter: invalidated._id }).next(), { code: 260, codeName: "InvalidResumeToken" });
  const again = c.watch([], { startAfter: invalidated._id });
  await again.tryNext();
  await c.insertOne({ _id: 1 });
  assert.equal((await again.next()).operationType, "insert");
  await again.close();
});

test("an idle stream's token moves on", async () => {
  const c = collection();
  const stream = await opened(c);
  const before = JSON.stringify(stream.resumeToken);
  await collection().insertOne({ elsewhere: true });
  for (let i = 0; i < 100 && JSON.stringify(stream.resumeToken) === before; i++) assert.equal(await stream.tryNext(), null);
  assert.notEqual(JSON.stringify(stream.resumeToken), before);
  await stream.close();
});

test("the changes of a transaction come together, at its commit", async () => {
  const c = collection();
  await c.insertOne({ _id: 0 });
  const stream = await opened(c);
  await client.withSession((session) => session.withTransaction(async () => {
    await c.insertOne({ _id: 1 }, { session });
    await c.updateOne({ _id: 0 }, { $set: { n: 1 } }, { session });
  }));
  const [first, second] = [await stream.next(), await stream.next()];
  assert.deepEqual([first.operationType, second.operationType], ["insert", "update"]);
  assert.ok(first.clusterTime.equals(second.clusterTime));
  assert.ok(first.txnNumber !== undefined && first.lsid);
  await stream.close();
});

test("a database's and a deployment's stream see all of theirs", async () => {
  const c = collection();
  const database = client.db(c.dbName);
  const [ofDatabase, ofAll] = [await opened(database), await opened(client, [{ $match: { "ns.db": c.dbName } }])];
  await database.collection("a").insertOne({ _id: 1 });
  await database.collection("b").insertOne({ _id: 2 });
  for (const stream of [ofDatabase, ofAll]) {
    assert.deepEqual([(await stream.next()).ns.coll, (await stream.next()).ns.coll], ["a", "b"]);
    await stream.close();
  }
});
