import assert from "node:assert/strict";
import { test } from "node:test";
import { client, collection } from "./server.mjs";

test("indexes are made, listed and dropped", async () => {
  const c = collection();
  assert.deepEqual(await c.createIndexes([{ key: { a: 1, b: -1 }, unique: true }, { key: { t: 1 }, expireAfterSeconds: 60 }, { key: { s: 1 }, sparse: true }]), ["a_1_b_-1", "t_1", "s_1"]);
  const listed = await c.indexes();
  assert.deepEqual(listed.map((index) => index.name), ["_id_", "a_1_b_-1", "t_1", "s_1"]);
  assert.deepEqual([listed[1].unique, listed[2].expireAfterSeconds, listed[3].sparse], [true, 60, true]);
  await c.insertOne({ a: 1, b: 1 });
  await assert.rejects(c.insertOne({ a: 1, b: 1 }), { code: 11000, keyPattern: { a: 1, b: -1 } });
  await assert.rejects(c.createIndex({ a: 1, b: -1 }, { unique: true, expireAfterSeconds: 1 }), { code: 85, codeName: "IndexOptionsConflict" });
  await c.dropIndex("t_1");
  await assert.rejects(c.dropIndex("t_1"), { code: 27, codeName: "IndexNotFound" });
});

test("a partial index guards and serves its documents only", async () => {
  const c = collection();
  await c.createIndex({ email: 1 }, { unique: true, partialFilterExpression: { active: true } });
  await c.insertMany([{ email: "x", active: false }, { email: "x" }, { email: "x", active: true }]);
  await assert.rejects(c.insertOne({ email: "x", active: true }), { code: 11000 });
  assert.equal((await c.find({ email: "x" }).toArray()).length, 3);
  await assert.rejects(c.createIndex({ a: 1 }, { partialFilterExpression: { a: { $ne: 1 } } }), { code: 67 });
});

test("a validator refuses documents and names them", async () => {
  const c = collection();
  const database = client.db(c.dbName);
  await database.createCollection("c", { validator: { $jsonSchema: { required: ["n"], properties: { n: { bsonType: "int" } } } } });
  const error = await c.insertMany([{ _id: 1, n: 1 }, { _id: 2, n: "x" }]).catch((e) => e);
  assert.equal(error.code, 121);
  assert.equal(error.writeErrors[0].err.errInfo.failingDocumentId, 2);
  await c.insertOne({ _id: 3 }, { bypassDocumentValidation: true });
  await database.command({ collMod: "c", validationLevel: "moderate" });
  assert.equal((await c.updateOne({ _id: 3 }, { $set: { a: 1 } })).modifiedCount, 1);
  const [{ options }] = await database.listCollections({ name: "c" }).toArray();
  assert.deepEqual([options.validationLevel, options.validationAction], ["moderate", "error"]);
});

test("a collation compares as its language does", async () => {
  const c = collection();
  await client.db(c.dbName).createCollection("c", { collation: { locale: "en", strength: 2 } });
  await c.insertMany([{ _id: 1, n: "b" }, { _id: 2, n: "A" }, { _id: 3, n: "a" }]);
  assert.equal(await c.countDocuments({ n: "a" }), 2);
  assert.deepEqual((await c.find().sort({ n: 1, _id: 1 }).toArray()).map((d) => d._id), [2, 3, 1]);
  assert.deepEqual((await c.find({ n: "a" }).collation({ locale: "simple" }).toArray()).map((d) => d._id), [3]);
});

test("a rename replaces its target and keeps the UUID", async () => {
  const c = collection();
  const database = client.db(c.dbName);
  await c.insertOne({ _id: "new" });
  await c.createIndex({ a: 1 });
  await database.collection("old").insertOne({ _id: "old" });
  const uuid = async (name) => (await database.listCollections({ name }).toArray())[0].info.uuid.toString("hex");
  const before = await uuid("c");
  await assert.rejects(c.rename("old"), { code: 48, codeName: "NamespaceExists" });
  await c.rename("old", { dropTarget: true });
  assert.equal(await uuid("old"), before);
  assert.deepEqual(await database.collection("old").find().toArray(), [{ _id: "new" }]);
  assert.equal((await database.collection("old").indexes()).length, 2);
});

test("collections and databases are listed and dropped", async () => {
  const c = collection();
  const database = client.db(c.dbName);
  await c.insertOne({});
  await assert.rejects(database.createCollection("c"), { code: 48 });
  assert.deepEqual((await database.listCollections({}, { nameOnly: true }).toArray()).map((entry) => entry.name), ["c"]);
  const { databases } = await client.db("admin").admin().listDatabases({ nameOnly: true });
  assert.ok(databases.some((entry) => entry.name === c.dbName));
  await database.dropDatabase();
  assert.deepEqual(await database.listCollections().toArray(), []);
});

test("the server describes itself as a replica set of 7.0", async () => {
  const hello = await client.db("admin").command({ hello: 1 });
  assert.deepEqual([hello.setName, hello.isWritablePrimary, hello.maxWireVersion], ["rs0", true, 21]);
  assert.match((await client.db("admin").admin().buildInfo()).version, /^7\.0\./);
});
