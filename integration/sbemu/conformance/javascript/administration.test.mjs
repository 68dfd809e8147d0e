import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { administration, bodies, connect, none, queue, receive, topic } from "./namespace.mjs";

const client = connect();

test("a queue keeps its properties", async () => {
  const name = await queue({ lockDuration: "PT30S", maxDeliveryCount: 7, requiresSession: true });
  const found = await administration.getQueue(name);
  assert.equal(found.lockDuration, "PT30S");
  assert.equal(found.maxDeliveryCount, 7);
  assert.equal(found.requiresSession, true);
  assert.equal(await administration.queueExists(name), true);
  await administration.deleteQueue(name);
  assert.equal(await administration.queueExists(name), false);
});

test("a queue's counts are told", async () => {
  const name = await queue();
  await client.createSender(name).sendMessages([{ body: 1 }, { body: 2 }]);
  const receiver = client.createReceiver(name);
  await receiver.deadLetterMessage((await receive(receiver, 1))[0]);
  const counts = await administration.getQueueRuntimeProperties(name);
  assert.equal(counts.activeMessageCount, 1);
  assert.equal(counts.deadLetterMessageCount, 1);
});

test("a name is taken once", async () => {
  const name = await queue();
  await assert.rejects(administration.createQueue(name), { statusCode: 409 });
});

test("topics and subscriptions are listed", async () => {
  const name = await topic();
  await administration.createSubscription(name, "second", { requiresSession: true });
  const found = [];
  for await (const subscription of administration.listSubscriptions(name)) found.push(subscription.subscriptionName);
  assert.deepEqual(found.sort(), ["second", "subscription"]);
});

test("a SQL rule selects messages", async () => {
  const name = await topic();
  await administration.createRule(name, "subscription", "large", { sqlExpression: "size > 10" });
  await administration.deleteRule(name, "subscription", "$Default");
  await client.createSender(name).sendMessages([
    { body: "small", applicationProperties: { size: 1 } },
    { body: "large", applicationProperties: { size: 11 } },
  ]);
  const receiver = client.createReceiver(name, "subscription");
  assert.deepEqual(bodies(await receive(receiver, 1)), ["large"]);
  assert.ok(await none(receiver));
});

test("a correlation rule selects messages", async () => {
  const name = await topic();
  await administration.createRule(name, "subscription", "green", { correlationId: "green" });
  await administration.deleteRule(name, "subscription", "$Default");
  await client.createSender(name).sendMessages([
    { body: 1, correlationId: "red" },
    { body: 2, correlationId: "green" },
  ]);
  assert.deepEqual(bodies(await receive(client.createReceiver(name, "subscription"), 1)), [2]);
});

test("what does not exist is not found", async () => {
  await assert.rejects(administration.getTopic(`topic-${randomUUID()}`), { code: "MessageEntityNotFoundError" });
});
