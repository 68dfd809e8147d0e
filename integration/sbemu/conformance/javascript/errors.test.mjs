import assert from "node:assert/strict";
import { test } from "node:test";
import { connect, connectionString, listenOnly, queue, sendOnly } from "./namespace.mjs";

test("a wrong key is refused", async () => {
  const name = await queue();
  const wrong = connectionString.replace(/SharedAccessKey=[^;]*/, "SharedAccessKey=d3Jvbmc=");
  await assert.rejects(connect(wrong).createSender(name).sendMessages({ body: 1 }), { code: "UnauthorizedAccess" });
});

test("a key that may only listen cannot send", async () => {
  const name = await queue();
  await assert.rejects(connect(listenOnly).createSender(name).sendMessages({ body: 1 }), { code: "UnauthorizedAccess" });
});

test("a key that may only send cannot receive", async () => {
  const name = await queue();
  const receiver = connect(sendOnly).createReceiver(name);
  await assert.rejects(receiver.receiveMessages(1, { maxWaitTimeInMs: 2000 }), { code: "UnauthorizedAccess" });
});

test("an entity that does not exist is named", async () => {
  await assert.rejects(connect().createSender("nothing-here").sendMessages({ body: 1 }), { code: "MessagingEntityNotFound" });
});

test("a session of a queue without sessions is refused", async () => {
  const name = await queue();
  await assert.rejects(connect().acceptSession(name, "a"), { name: "ServiceBusError" });
});
