import assert from "node:assert/strict";
import { test } from "node:test";
import { client, collection } from "./server.mjs";
import { append, Conflict, openStore, version } from "./store.mjs";

const added = { type: "ItemAddedToOrderEvent", payload: { sku: "tea" } };

test("the example of a writer stores the events of a command together, and numbers them from 1", async () => {
  const events = await openStore(collection());
  assert.equal(await version(events, "o-1"), 0);
  assert.equal(await append(client, events, "Order", "o-1", 0, { type: "OrderPlacedEvent", payload: {} }, added), 2);
  assert.equal(await version(events, "o-1"), 2);
  const stored = await events.find({}, { sort: { eventId: 1 }, promoteLongs: false }).toArray();
  assert.deepEqual(stored.map((e) => [e.eventType, e.eventId._bsontype, e.timestamp instanceof Date]), [["OrderPlacedEvent", "Long", true], ["ItemAddedToOrderEvent", "Long", true]]);
});

test("two writers of the example that decide at once store every event once", async () => {
  const events = await openStore(collection());
  let conflicts = 0;
  const write = async () => {
    for (let left = 5; left > 0; ) {
      try {
        await append(client, events, "Order", "o-1", await version(events, "o-1"), added, added);
        left--;
      } catch (error) {
        if (!(error instanceof Conflict)) throw error;
        conflicts++;
      }
    }
  };
  await Promise.all([write(), write(), write()]);
  const ids = (await events.find({}, { sort: { eventId: 1 } }).toArray()).map((e) => e.eventId);
  assert.deepEqual(ids, Array.from({ length: 30 }, (_, i) => i + 1));
  assert.ok(conflicts > 0, "no two writers have met");
});
