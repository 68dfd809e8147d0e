import assert from "node:assert/strict";
import { test } from "node:test";
import { bodies, connect, none, queue, receive, topic } from "./namespace.mjs";

const client = connect();

test("a message arrives with its body and properties", async () => {
  const name = await queue();
  await client.createSender(name).sendMessages({
    body: { text: "hello", n: 1 },
    messageId: "m-1",
    contentType: "application/json",
    correlationId: "c-1",
    subject: "greeting",
    to: "there",
    replyTo: "here",
    applicationProperties: { text: "a", number: 2, yes: true },
  });
  const [message] = await receive(client.createReceiver(name), 1);
  assert.deepEqual(message.body, { text: "hello", n: 1 });
  assert.equal(message.messageId, "m-1");
  assert.equal(message.contentType, "application/json");
  assert.equal(message.correlationId, "c-1");
  assert.equal(message.subject, "greeting");
  assert.equal(message.to, "there");
  assert.equal(message.replyTo, "here");
  assert.deepEqual({ ...message.applicationProperties }, { text: "a", number: 2, yes: true });
  assert.equal(message.deliveryCount, 0);
  assert.ok(message.lockToken);
  assert.ok(message.lockedUntilUtc > new Date());
  assert.ok(message.enqueuedTimeUtc instanceof Date);
});

test("messages arrive in the order in which they were sent", async () => {
  const name = await queue();
  const sender = client.createSender(name);
  for (let n = 0; n < 20; n++) await sender.sendMessages({ body: n });
  const messages = await receive(client.createReceiver(name), 20);
  assert.deepEqual(bodies(messages), [...Array(20).keys()]);
  const numbers = messages.map((message) => message.sequenceNumber.toNumber());
  assert.deepEqual(numbers, [...numbers].sort((a, b) => a - b));
});

test("a batch arrives whole and in order", async () => {
  const name = await queue();
  const sender = client.createSender(name);
  const batch = await sender.createMessageBatch();
  for (let n = 0; n < 100; n++) assert.ok(batch.tryAddMessage({ body: n, messageId: `m-${n}` }));
  await sender.sendMessages(batch);
  const messages = await receive(client.createReceiver(name, { receiveMode: "receiveAndDelete" }), 100);
  assert.deepEqual(bodies(messages), [...Array(100).keys()]);
});

test("a batch refuses a message that no longer fits", async () => {
  const sender = client.createSender(await queue());
  const batch = await sender.createMessageBatch({ maxSizeInBytes: 1000 });
  assert.ok(batch.tryAddMessage({ body: "x".repeat(500) }));
  assert.equal(batch.tryAddMessage({ body: "x".repeat(600) }), false);
  assert.equal(batch.count, 1);
});

test("an array of messages is sent as one batch", async () => {
  const name = await queue();
  await client.createSender(name).sendMessages([{ body: 1 }, { body: 2 }, { body: 3 }]);
  assert.deepEqual(bodies(await receive(client.createReceiver(name), 3)), [1, 2, 3]);
});

test("a message of many frames arrives whole", async () => {
  const name = await queue();
  const body = Buffer.alloc(200_000, "payload");
  await client.createSender(name).sendMessages({ body });
  const [message] = await receive(client.createReceiver(name), 1);
  assert.ok(body.equals(message.body));
});

test("a message over the limit is refused at once", async () => {
  const name = await queue();
  const sender = client.createSender(name);
  const before = Date.now();
  await assert.rejects(sender.sendMessages({ body: "x".repeat(300_000) }), { code: "MessageSizeExceeded" });
  assert.ok(Date.now() - before < 5000, "the sender waited for its timeout");
  await sender.close();
  await client.createSender(name).sendMessages({ body: "small" });
  assert.deepEqual(bodies(await receive(client.createReceiver(name), 1)), ["small"]);
});

test("a duplicate is accepted and dropped", async () => {
  const name = await queue({ requiresDuplicateDetection: true });
  const sender = client.createSender(name);
  await sender.sendMessages({ body: "first", messageId: "same" });
  await sender.sendMessages({ body: "second", messageId: "same" });
  await sender.sendMessages({ body: "third", messageId: "other" });
  const receiver = client.createReceiver(name, { receiveMode: "receiveAndDelete" });
  assert.deepEqual(bodies(await receive(receiver, 2)), ["first", "third"]);
  assert.ok(await none(receiver));
});

test("a message without a session id is refused by a queue that requires sessions", async () => {
  const sender = client.createSender(await queue({ requiresSession: true }));
  await assert.rejects(sender.sendMessages({ body: "no session" }), { name: "ServiceBusError" });
});

test("a partition key that is not the session id is refused", async () => {
  const sender = client.createSender(await queue({ requiresSession: true }));
  await assert.rejects(async () => sender.sendMessages({ body: 1, sessionId: "a", partitionKey: "b" }));
});

test("a topic hands a message to its subscription", async () => {
  const name = await topic();
  await client.createSender(name).sendMessages({ body: "news" });
  assert.deepEqual(bodies(await receive(client.createReceiver(name, "subscription"), 1)), ["news"]);
});

test("a message expires after its time to live", async () => {
  const name = await queue();
  await client.createSender(name).sendMessages([{ body: "short", timeToLive: 100 }, { body: "long" }]);
  const receiver = client.createReceiver(name, { receiveMode: "receiveAndDelete" });
  await new Promise((resolve) => setTimeout(resolve, 300));
  assert.deepEqual(bodies(await receive(receiver, 1)), ["long"]);
});
