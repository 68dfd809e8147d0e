// The server under test, from the environment that the conformance command sets, and
// a database of its own for each test.
import { randomUUID } from "node:crypto";
import { after } from "node:test";
import { MongoClient } from "mongodb";

export const uri = process.env.MONGODB_URI;
if (!uri) throw new Error("MONGODB_URI is not set: run these tests by the conformance command");

const clients = [];

// connect opens a client that is closed after the file's tests.
export function connect(options = {}) {
  const client = new MongoClient(uri, { serverSelectionTimeoutMS: 10_000, ...options });
  clients.push(client);
  return client;
}

after(() => Promise.all(clients.map((client) => client.close())));

export const client = connect();

// collection gives an empty collection in a database of the test's own.
export function collection(of = client) {
  return of.db(`test-${randomUUID()}`).collection("c");
}

// failCommand orders commands of one client's application name to fail.
export function failCommand(appName, mode, data) {
  return client.db("admin").command({ configureFailPoint: "failCommand", mode, data: { ...data, appName } });
}

export const ids = (documents) => documents.map((document) => document._id);
