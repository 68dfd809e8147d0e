import assert from "node:assert/strict";
import { test } from "node:test";
import { bodies, connect, queue, receive, topic } from "./namespace.mjs";

const client = connect();
const sessions = { requiresSession: true };

test("a session is accepted by its id, and holds its messages in order", async () => {
  const name = await queue(sessions);
  await client.createSender(name).sendMessages([
    { body: 1, sessionId: "a" },
    { body: 2, sessionId: "b" },
    { body: 3, sessionId: "a" },
  ]);
  const receiver = await client.acceptSession(name, "a");
  assert.equal(receiver.sessionId, "a");
  assert.ok(receiver.sessionLockedUntilUtc > new Date());
  assert.deepEqual(bodies(await receive(receiver, 2)), [1, 3]);
  await receiver.close();
});

test("the next session with messages is accepted", async () => {
  const name = await queue(sessions);
  await client.createSender(name).sendMessages({ body: 1, sessionId: "only" });
  const receiver = await client.acceptNextSession(name);
  assert.equal(receiver.sessionId, "only");
  const [message] = await receive(receiver, 1);
  assert.equal(message.sessionId, "only");
  await receiver.completeMessage(message);
  await receiver.close();
});

test("a session of a subscription is accepted", async () => {
  const name = await topic(sessions);
  await client.createSender(name).sendMessages({ body: 1, sessionId: "a" });
  const receiver = await client.acceptNextSession(name, "subscription");
  assert.deepEqual(bodies(await receive(receiver, 1)), [1]);
  await receiver.close();
});

test("a session that another holds cannot be accepted", async () => {
  const name = await queue(sessions);
  const holder = await client.acceptSession(name, "a");
  await assert.rejects(connect().acceptSession(name, "a"), { code: "SessionCannotBeLocked" });
  await holder.close();
  await (await connect().acceptSession(name, "a")).close();
});

test("without a session to accept the service says so in the client's time", async () => {
  const name = await queue(sessions);
  const before = Date.now();
  await assert.rejects(client.acceptNextSession(name), { code: "ServiceTimeout" });
  assert.ok(Date.now() - before < 15_000);
});

test("a session's messages come again to the next holder, uncounted", async () => {
  const name = await queue(sessions);
  await client.createSender(name).sendMessages({ body: 1, sessionId: "a" });
  const first = await client.acceptSession(name, "a");
  await receive(first, 1);
  await first.close();
  const second = await client.acceptSession(name, "a");
  const [message] = await receive(second, 1);
  assert.equal(message.deliveryCount, 0);
  await second.close();
});

test("a session has a state", async () => {
  const name = await queue(sessions);
  const receiver = await client.acceptSession(name, "a");
  assert.equal(await receiver.getSessionState(), null);
  await receiver.setSessionState(Buffer.from("half done"));
  await receiver.close();
  const again = await client.acceptSession(name, "a");
  assert.equal(String(await again.getSessionState()), "half done");
  await again.setSessionState(null);
  assert.equal(await again.getSessionState(), null);
  await again.close();
});

test("a session's lock is renewed", async () => {
  const name = await queue({ ...sessions, lockDuration: "PT5S" });
  const receiver = await client.acceptSession(name, "a", { maxAutoLockRenewalDurationInMs: 0 });
  const before = receiver.sessionLockedUntilUtc;
  await new Promise((resolve) => setTimeout(resolve, 1000));
  const until = await receiver.renewSessionLock();
  assert.ok(until > before);
  await receiver.close();
});

test("a message of a session whose lock has ended cannot be completed", async () => {
  const name = await queue({ ...sessions, lockDuration: "PT5S" });
  await client.createSender(name).sendMessages({ body: 1, sessionId: "a" });
  const receiver = await client.acceptSession(name, "a", { maxAutoLockRenewalDurationInMs: 0 });
  const [message] = await receive(receiver, 1);
  await new Promise((resolve) => setTimeout(resolve, 5500));
  await assert.rejects(receiver.completeMessage(message), { code: "SessionLockLost" });
});

test("a deferred message of a session is received by its number, and settled", async () => {
  const name = await queue(sessions);
  await client.createSender(name).sendMessages([1, 2, 3].map((body) => ({ body, sessionId: "a" })));
  const receiver = await client.acceptSession(name, "a");
  const messages = await receive(receiver, 3);
  for (const message of messages) await receiver.deferMessage(message);
  const numbers = messages.map((message) => message.sequenceNumber);
  const [one, two, three] = await receiver.receiveDeferredMessages(numbers);
  assert.deepEqual([one.body, two.body, three.body], [1, 2, 3]);
  await receiver.completeMessage(one);
  await receiver.abandonMessage(two);
  await receiver.deadLetterMessage(three, { deadLetterReason: "late" });
  assert.deepEqual(bodies(await receiver.receiveDeferredMessages(numbers[1])), [2]);
  await receiver.close();
  const [dead] = await receive(client.createReceiver(name, { subQueueType: "deadLetter" }), 1);
  assert.equal(dead.body, 3);
  assert.equal(dead.deadLetterReason, "late");
});

test("a session is peeked without taking its messages", async () => {
  const name = await queue(sessions);
  await client.createSender(name).sendMessages([
    { body: 1, sessionId: "a" },
    { body: 2, sessionId: "b" },
    { body: 3, sessionId: "a" },
  ]);
  const receiver = await client.acceptSession(name, "a");
  assert.deepEqual(bodies(await receiver.peekMessages(10)), [1, 3]);
  assert.deepEqual(bodies(await receive(receiver, 2)), [1, 3]);
  await receiver.close();
});

test("a session is streamed in order", async () => {
  const name = await queue(sessions);
  await client.createSender(name).sendMessages(Array.from({ length: 20 }, (_, n) => ({ body: n, sessionId: "a" })));
  const receiver = await client.acceptSession(name, "a");
  const seen = [];
  await new Promise((resolve, reject) =>
    receiver.subscribe({
      async processMessage(message) {
        seen.push(message.body);
        if (seen.length === 20) resolve();
      },
      async processError({ error }) {
        reject(error);
      },
    }),
  );
  assert.deepEqual(seen, [...Array(20).keys()]);
  await receiver.close();
});

test("a receiver without a session is refused by a queue that requires sessions", async () => {
  const name = await queue(sessions);
  await assert.rejects(client.createReceiver(name).receiveMessages(1, { maxWaitTimeInMs: 2000 }), { name: "ServiceBusError" });
});
