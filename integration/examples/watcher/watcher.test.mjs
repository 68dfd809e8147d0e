import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { client, collection, uri } from "./server.mjs";

const port = 18_090;

// events gives what a browser gets, until its reader stops.
async function* events() {
  const reading = new AbortController();
  let response;
  while (!response) response = await fetch(`http://localhost:${port}/`, { signal: reading.signal }).catch(() => setTimeout(50)); // the program starts
  let text = "";
  try {
    for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
      const complete = (text + chunk).split("\n\n");
      text = complete.pop();
      for (const one of complete) {
        const [, event, data] = one.match(/^event: (.*)\ndata: (.*)$/);
        yield [event, JSON.parse(data)];
      }
    }
  } finally {
    reading.abort();
  }
}

test("the example of a watcher follows a collection that is replaced three times", async () => {
  const models = collection();
  const database = client.db(models.dbName);
  await models.insertMany([0, 1, 2, 3].map((id) => ({ _id: id, n: 0 })));
  const watcher = spawn(process.execPath, ["watcher.mjs"], {
    stdio: ["ignore", "ignore", "inherit"],
    env: { ...process.env, MONGODB_URI: uri, PENSTOCK_READMODELS_DATABASE: models.dbName, COLLECTION: models.collectionName, PORT: String(port) },
  });
  let n = 0;
  // write changes every document, except one that it deletes.
  const write = async () => {
    n++;
    await models.updateMany({}, { $set: { n } });
    await models.deleteOne({ _id: n });
  };
  // promote replaces the collection by another one, as a promotion does.
  const promote = async () => {
    const next = database.collection(`next-${n}`);
    await next.insertMany([0, 1, 2, 3, 4].map((id) => ({ _id: id, n })));
    await next.rename(models.collectionName, { dropTarget: true });
  };
  const shown = new Map();
  let replaced = 0;
  try {
    for await (const [event, data] of events()) {
      if (event === "all") {
        shown.clear();
        data.forEach((document) => shown.set(document._id, document));
        replaced++;
        await write();
        if (replaced <= 3) await promote();
        await write();
      } else if (event === "document") shown.set(data._id, data);
      else shown.delete(data._id);
      if (replaced === 4 && [...shown.values()].every((document) => document.n === n)) {
        const all = await models.find().sort({ _id: 1 }).toArray();
        if (shown.size === all.length) {
          assert.deepEqual([...shown.values()].sort((a, b) => a._id - b._id), all);
          return;
        }
      }
    }
    assert.fail("the watcher has ended");
  } finally {
    watcher.kill();
  }
});
