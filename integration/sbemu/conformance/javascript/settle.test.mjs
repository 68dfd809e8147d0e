import assert from "node:assert/strict";
import { test } from "node:test";
import { bodies, connect, none, queue, receive, topic } from "./namespace.mjs";

const client = connect();

test("a completed message is gone", async () => {
  const name = await queue();
  await client.createSender(name).sendMessages([{ body: 1 }, { body: 2 }]);
  const receiver = client.createReceiver(name);
  for (const message of await receive(receiver, 2)) await receiver.completeMessage(message);
  assert.ok(await none(receiver));
});

test("an abandoned message comes again, counted and with changed properties", async () => {
  const name = await queue();
  await client.createSender(name).sendMessages({ body: 1, applicationProperties: { kept: "yes" } });
  const receiver = client.createReceiver(name);
  const [first] = await receive(receiver, 1);
  await receiver.abandonMessage(first, { tried: "once" });
  const [again] = await receive(receiver, 1);
  assert.equal(again.deliveryCount, 1);
  assert.deepEqual({ ...again.applicationProperties }, { kept: "yes", tried: "once" });
});

test("a message is dead-lettered after its last delivery", async () => {
  const name = await queue({ maxDeliveryCount: 2 });
  await client.createSender(name).sendMessages({ body: "poison" });
  const receiver = client.createReceiver(name);
  for (let n = 0; n < 2; n++) await receiver.abandonMessage((await receive(receiver, 1))[0]);
  assert.ok(await none(receiver));
  const [dead] = await receive(client.createReceiver(name, { subQueueType: "deadLetter" }), 1);
  assert.equal(dead.body, "poison");
  assert.equal(dead.deadLetterReason, "MaxDeliveryCountExceeded");
});

test("a message is dead-lettered with a reason, and completed there", async () => {
  const name = await queue();
  await client.createSender(name).sendMessages({ body: 1 });
  const receiver = client.createReceiver(name);
  const [message] = await receive(receiver, 1);
  await receiver.deadLetterMessage(message, { deadLetterReason: "broken", deadLetterErrorDescription: "no field", extra: 1 });
  const dead = client.createReceiver(name, { subQueueType: "deadLetter" });
  const [found] = await receive(dead, 1);
  assert.equal(found.deadLetterReason, "broken");
  assert.equal(found.deadLetterErrorDescription, "no field");
  assert.equal(found.applicationProperties.extra, 1);
  await dead.completeMessage(found);
  assert.ok(await none(dead));
});

test("a subscription has a dead-letter queue of its own", async () => {
  const name = await topic();
  await client.createSender(name).sendMessages({ body: 1 });
  const receiver = client.createReceiver(name, "subscription");
  await receiver.deadLetterMessage((await receive(receiver, 1))[0]);
  const dead = client.createReceiver(name, "subscription", { subQueueType: "deadLetter" });
  assert.deepEqual(bodies(await receive(dead, 1)), [1]);
});

test("a deferred message is received by its number only, and completed", async () => {
  const name = await queue();
  await client.createSender(name).sendMessages({ body: "later" });
  const receiver = client.createReceiver(name);
  const [message] = await receive(receiver, 1);
  await receiver.deferMessage(message);
  assert.ok(await none(receiver));
  const [deferred] = await receiver.receiveDeferredMessages(message.sequenceNumber);
  assert.equal(deferred.body, "later");
  assert.equal(deferred.state, "deferred");
  await receiver.completeMessage(deferred);
  assert.deepEqual(await receiver.receiveDeferredMessages(message.sequenceNumber).catch(() => []), []);
});

test("a deferred message can be abandoned and stays deferred", async () => {
  const name = await queue();
  await client.createSender(name).sendMessages({ body: "later" });
  const receiver = client.createReceiver(name);
  const [message] = await receive(receiver, 1);
  await receiver.deferMessage(message);
  const [deferred] = await receiver.receiveDeferredMessages(message.sequenceNumber);
  await receiver.abandonMessage(deferred);
  const [again] = await receiver.receiveDeferredMessages(message.sequenceNumber);
  assert.equal(again.body, "later");
});

test("a renewed lock is held longer", async () => {
  const name = await queue({ lockDuration: "PT5S" });
  await client.createSender(name).sendMessages({ body: 1 });
  const receiver = client.createReceiver(name, { maxAutoLockRenewalDurationInMs: 0 });
  const [message] = await receive(receiver, 1);
  const before = message.lockedUntilUtc;
  await new Promise((resolve) => setTimeout(resolve, 1000));
  const until = await receiver.renewMessageLock(message);
  assert.ok(until > before, `${until.toISOString()} is not after ${before.toISOString()}`);
  await receiver.completeMessage(message);
});

test("a message whose lock has ended cannot be completed, and comes again", async () => {
  const name = await queue({ lockDuration: "PT5S" });
  await client.createSender(name).sendMessages({ body: 1 });
  const receiver = client.createReceiver(name, { maxAutoLockRenewalDurationInMs: 0 });
  const [message] = await receive(receiver, 1);
  await new Promise((resolve) => setTimeout(resolve, 5500));
  await assert.rejects(receiver.completeMessage(message), { code: "MessageLockLost" });
  const [again] = await receive(receiver, 1);
  assert.equal(again.deliveryCount, 1);
  await receiver.completeMessage(again);
});

test("receive and delete leaves nothing behind", async () => {
  const name = await queue();
  await client.createSender(name).sendMessages([{ body: 1 }, { body: 2 }]);
  const receiver = client.createReceiver(name, { receiveMode: "receiveAndDelete" });
  assert.deepEqual(bodies(await receive(receiver, 2)), [1, 2]);
  await receiver.close();
  assert.deepEqual(await client.createReceiver(name).peekMessages(1), []);
});

test("a streaming receiver gets each message once", async () => {
  const name = await queue();
  const receiver = client.createReceiver(name);
  const seen = [];
  const errors = [];
  let done;
  const all = new Promise((resolve) => (done = resolve));
  const subscription = receiver.subscribe({
    async processMessage(message) {
      seen.push(message.body);
      if (seen.length === 30) done();
    },
    async processError({ error }) {
      errors.push(error);
    },
  });
  const sender = client.createSender(name);
  for (let n = 0; n < 30; n++) await sender.sendMessages({ body: n });
  await all;
  await subscription.close();
  assert.deepEqual(seen.sort((a, b) => a - b), [...Array(30).keys()]);
  assert.deepEqual(errors, []);
  assert.ok(await none(receiver));
});

test("two receivers share the messages of a queue", async () => {
  const name = await queue();
  await client.createSender(name).sendMessages(Array.from({ length: 10 }, (_, n) => ({ body: n })));
  const [a, b] = [client.createReceiver(name), client.createReceiver(name)];
  const first = await receive(a, 5);
  const second = await receive(b, 5);
  assert.deepEqual([...bodies(first), ...bodies(second)].sort((x, y) => x - y), [...Array(10).keys()]);
});
