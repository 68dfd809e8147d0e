// An example of a service that shows a read model to browsers, and keeps what they show up to
// date: it keeps a copy of the collection, and sends every change of it as a server-sent event.
//
// It watches the database, because a change stream on the collection ends when a new
// generation of the read model replaces it. Copy `follow`, and replace `tell`.
import { createServer } from "node:http";
import { setTimeout } from "node:timers/promises";
import { BSON, MongoClient } from "mongodb";

const client = new MongoClient(required("MONGODB_URI"), { appName: "watcher" });
// The variable and default of the projector, which writes the collection.
const database = client.db(process.env.PENSTOCK_READMODELS_DATABASE ?? "penstock");
const collection = database.collection(required("COLLECTION"));

// The documents by their ids; undefined until the collection was read.
let documents;
const browsers = new Set();

const text = (value) => BSON.EJSON.stringify(value);
const tell = (event, value) => browsers.forEach((browser) => browser.write(`event: ${event}\ndata: ${text(value)}\n\n`));
// A rename to the collection's name, and a drop, have no document: other documents have the name
// now.
const replaces = (change) => !change.documentKey;

function apply(change, to) {
  const id = text(change.documentKey._id);
  // After an update the document is missing if it is gone meanwhile.
  if (change.fullDocument) to.set(id, change.fullDocument);
  else to.delete(id);
}

// follow keeps the copy up to date until the change stream ends.
async function follow() {
  const name = collection.collectionName;
  const stream = database.watch([{ $match: { $or: [{ "ns.coll": name }, { "to.coll": name }] } }], { fullDocument: "updateLookup", maxAwaitTimeMS: 500 });
  try {
    await stream.tryNext(); // opens the stream: what happens from now on is in it
    await read(stream);
    for await (const change of stream) {
      if (replaces(change)) {
        await read(stream);
        continue;
      }
      apply(change, documents);
      if (change.fullDocument) tell("document", change.fullDocument);
      else tell("deleted", change.documentKey);
    }
  } finally {
    await stream.close();
  }
}

// read reads the whole collection, and shows it. What happened meanwhile is in the stream, and is
// applied before anything is shown: otherwise documents would go back for a moment.
async function read(stream) {
  let [all, until] = await find();
  for (let change; (change = await stream.tryNext()); ) {
    if (replaces(change)) {
      [all, until] = await find();
      continue;
    }
    apply(change, all);
    if (until && change.clusterTime.greaterThan(until)) break;
  }
  documents = all;
  tell("all", [...documents.values()]);
}

// find returns all documents, and the server's time when it had sent them.
async function find() {
  return client.withSession(async (session) => {
    const all = new Map();
    for await (const document of collection.find({}, { session })) all.set(text(document._id), document);
    return [all, session.operationTime];
  });
}

createServer((request, response) => {
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  response.flushHeaders();
  if (documents) response.write(`event: all\ndata: ${text([...documents.values()])}\n\n`);
  browsers.add(response);
  response.on("close", () => browsers.delete(response));
}).listen(Number(process.env.PORT ?? 8090), "localhost");

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(0));

for (;;) {
  try {
    await follow();
  } catch (error) {
    console.error(error.message);
  }
  await setTimeout(1000);
}

function required(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set`);
  return value;
}
