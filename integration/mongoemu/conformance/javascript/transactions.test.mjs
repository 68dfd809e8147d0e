import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { client, collection, connect, failCommand } from "./server.mjs";

test("a transaction is seen after its commit only", async () => {
  const c = collection();
  await c.insertOne({ _id: 0 });
  await client.withSession(async (session) => {
    session.startTransaction({ readConcern: { level: "snapshot" }, writeConcern: { w: "majority" } });
    await c.insertOne({ _id: 1 }, { session });
    assert.equal(await c.countDocuments({}, { session }), 2);
    assert.equal(await c.countDocuments(), 1);
    await session.commitTransaction();
    await session.commitTransaction();
  });
  assert.equal(await c.countDocuments(), 2);
});

test("an aborted transaction leaves nothing", async () => {
  const c = collection();
  await c.insertOne({ _id: 0 });
  await client.withSession(async (session) => {
    session.startTransaction();
    await c.insertOne({ _id: 1 }, { session });
    await c.updateOne({ _id: 0 }, { $set: { n: 1 } }, { session });
    await session.abortTransaction();
  });
  assert.deepEqual(await c.find().toArray(), [{ _id: 0 }]);
});

test("two transactions on one document conflict, with a label to retry", async () => {
  const c = collection();
  await c.insertOne({ _id: 1, n: 0 });
  const [first, second] = [client.startSession(), client.startSession()];
  first.startTransaction();
  second.startTransaction();
  await c.updateOne({ _id: 1 }, { $inc: { n: 1 } }, { session: first });
  const error = await c.updateOne({ _id: 1 }, { $inc: { n: 1 } }, { session: second }).catch((e) => e);
  assert.equal(error.code, 112);
  assert.ok(error.hasErrorLabel("TransientTransactionError"));
  await first.commitTransaction();
  await second.abortTransaction();
  await Promise.all([first.endSession(), second.endSession()]);
  assert.deepEqual(await c.findOne(), { _id: 1, n: 1 });
});

test("withTransaction retries conflicts until all are done", async () => {
  const c = collection();
  await c.insertOne({ _id: 1, n: 0 });
  await Promise.all(Array.from({ length: 8 }, () => client.withSession((session) => session.withTransaction(async () => {
    const { n } = await c.findOne({ _id: 1 }, { session });
    await c.updateOne({ _id: 1 }, { $set: { n: n + 1 } }, { session });
  }))));
  assert.equal((await c.findOne()).n, 8);
});

test("a write error aborts the transaction", async () => {
  const c = collection();
  await c.insertOne({ _id: 1 });
  await client.withSession(async (session) => {
    session.startTransaction();
    await c.insertOne({ _id: 2 }, { session });
    await assert.rejects(c.insertOne({ _id: 1 }, { session }), { code: 11000 });
    await assert.rejects(c.insertOne({ _id: 3 }, { session }), { code: 251, codeName: "NoSuchTransaction" });
    await session.abortTransaction();
  });
  assert.equal(await c.countDocuments(), 1);
});

test("a commit whose answer says unknown is retried", async () => {
  const appName = randomUUID();
  const own = connect({ appName });
  const c = collection(own);
  await c.insertOne({ _id: 0 });
  await failCommand(appName, { times: 1 }, { failCommands: ["commitTransaction"], errorCode: 91, errorLabels: ["RetryableWriteError"] });
  await own.withSession((session) => session.withTransaction(() => c.insertOne({ _id: 1 }, { session })));
  assert.equal(await c.countDocuments(), 2);
});

test("a commit that the server calls transient runs the callback again", async () => {
  const appName = randomUUID();
  const own = connect({ appName });
  const c = collection(own);
  await c.insertOne({ _id: 0 });
  await failCommand(appName, { times: 2 }, { failCommands: ["commitTransaction"], errorCode: 251, errorLabels: ["TransientTransactionError"] });
  let calls = 0;
  await own.withSession((session) => session.withTransaction(async () => {
    calls++;
    await c.updateOne({ _id: 0 }, { $inc: { n: 1 } }, { session });
  }));
  assert.equal(calls, 3);
  assert.deepEqual(await c.findOne(), { _id: 0, n: 1 });
});

test("a write whose connection breaks is retried once, and applied once", async () => {
  const appName = randomUUID();
  const own = connect({ appName });
  const c = collection(own);
  await c.insertOne({ _id: 1, n: 0 });
  await failCommand(appName, { times: 1 }, { failCommands: ["update"], closeConnection: true });
  await c.updateOne({ _id: 1 }, { $inc: { n: 1 } });
  assert.equal((await c.findOne()).n, 1);
  await failCommand(appName, { times: 2 }, { failCommands: ["insert"], closeConnection: true });
  await assert.rejects(c.insertOne({ _id: 2 }), { name: "MongoNetworkError" });
  assert.equal(await c.countDocuments(), 1);
});

test("a write concern error comes beside the write's result", async () => {
  const appName = randomUUID();
  const own = connect({ appName });
  const c = collection(own);
  await failCommand(appName, { times: 1 }, { failCommands: ["insert"], writeConcernError: { code: 64, errmsg: "waiting for replication timed out" } });
  const error = await c.insertOne({ _id: 1 }).catch((e) => e);
  assert.equal(error.name, "MongoWriteConcernError");
  assert.equal(error.code, 64);
  assert.equal(await c.countDocuments(), 1);
});

test("a read is causally after the session's writes", async () => {
  const c = collection();
  await client.withSession({ causalConsistency: true }, async (session) => {
    await c.insertOne({ _id: 1 }, { session });
    assert.ok(session.operationTime);
    assert.deepEqual(await c.findOne({}, { session, readConcern: { level: "majority" } }), { _id: 1 });
  });
});
