import assert from "node:assert/strict";
import { test } from "node:test";
import { bodies, connect, none, queue, receive } from "./namespace.mjs";

const client = connect();
const inSeconds = (n) => new Date(Date.now() + n * 1000);

test("a peek takes nothing and goes on from where it was", async () => {
  const name = await queue();
  await client.createSender(name).sendMessages([{ body: 1 }, { body: 2 }, { body: 3 }]);
  const receiver = client.createReceiver(name);
  assert.deepEqual(bodies(await receiver.peekMessages(2)), [1, 2]);
  assert.deepEqual(bodies(await receiver.peekMessages(2)), [3]);
  assert.deepEqual(bodies(await receive(receiver, 3)), [1, 2, 3]);
});

test("a peek begins at the number that it is given", async () => {
  const name = await queue();
  await client.createSender(name).sendMessages([{ body: 1 }, { body: 2 }, { body: 3 }]);
  const receiver = client.createReceiver(name);
  const [, second] = await receiver.peekMessages(3);
  assert.deepEqual(bodies(await receiver.peekMessages(5, { fromSequenceNumber: second.sequenceNumber })), [2, 3]);
});

test("a scheduled message comes at its time", async () => {
  const name = await queue();
  const sender = client.createSender(name);
  const [number] = await sender.scheduleMessages({ body: "later" }, inSeconds(5));
  const receiver = client.createReceiver(name);
  const [peeked] = await receiver.peekMessages(1);
  assert.equal(peeked.state, "scheduled");
  assert.ok(peeked.sequenceNumber.equals(number));
  assert.ok(await none(receiver));
  assert.deepEqual(bodies(await receive(receiver, 1)), ["later"]);
});

test("a scheduled message is cancelled", async () => {
  const name = await queue();
  const sender = client.createSender(name);
  const numbers = await sender.scheduleMessages([{ body: 1 }, { body: 2 }], inSeconds(60));
  assert.equal(numbers.length, 2);
  await sender.cancelScheduledMessages(numbers);
  assert.deepEqual(await client.createReceiver(name).peekMessages(5), []);
});
