import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { connect, connectionString, topic } from "./namespace.mjs";

// The message that Penstock publishes for an event.
const message = (aggregateId, eventId) => ({
  messageId: `${aggregateId}/${eventId}`,
  sessionId: aggregateId,
  subject: "ItemAddedToOrderEvent",
  contentType: "application/json",
  applicationProperties: { aggregateId, eventId, eventType: "ItemAddedToOrderEvent", epoch: 1 },
  body: { aggregateId, eventId, payload: { quantity: eventId, sku: { $numberLong: "295953231447769117" } } },
});

test("the example of a consumer has right types, and prints each event once and in order", async () => {
  // tsc checks the types, and strips them for a Node.js that does not.
  const options = "--strict --erasableSyntaxOnly --verbatimModuleSyntax --skipLibCheck --module nodenext --target es2022";
  execFileSync("node_modules/.bin/tsc", [...options.split(" "), "consumer.ts"], { stdio: ["ignore", 2, "inherit"] });
  const name = await topic({ requiresSession: true });
  const sender = connect().createSender(name);
  await sender.sendMessages([message("a", 1), message("b", 1), message("a", 2), message("a", 1), message("b", 1), message("a", 3)]);
  const consumer = spawn(process.execPath, ["consumer.js"], {
    stdio: ["ignore", "pipe", "inherit"],
    env: {
      ...process.env,
      AZURE_SERVICEBUS_CONNECTION_STRING: connectionString,
      AZURE_SERVICEBUS_TOPIC_NAME: name,
      AZURE_SERVICEBUS_SUBSCRIPTION_NAME: "subscription",
    },
  });
  const ended = new Promise((resolve) => consumer.once("exit", (code) => resolve(code)));
  const printed = [];
  try {
    for await (const line of createInterface({ input: consumer.stdout })) {
      printed.push(JSON.parse(line));
      // After the first four events: a duplicate, then a new event.
      if (printed.length === 4) await sender.sendMessages([message("b", 1), message("b", 2)]);
      if (printed.length === 5) break;
    }
  } finally {
    consumer.kill("SIGTERM");
  }
  assert.equal(await ended, 0);
  const of = (id) => printed.filter((event) => event.aggregateId === id).map((event) => event.eventId);
  assert.deepEqual(of("a"), [1, 2, 3]);
  assert.deepEqual(of("b"), [1, 2]);
  assert.deepEqual(printed[0].payload, { quantity: 1, sku: "295953231447769117" });
});
