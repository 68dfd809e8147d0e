// The protocol itself, through rhea: an AMQP 1.0 library without Azure's code.
import assert from "node:assert/strict";
import { createHmac, randomUUID } from "node:crypto";
import { once } from "node:events";
import { after, test } from "node:test";
import rhea from "rhea";
import { connectionString, host, queue } from "./namespace.mjs";

const connections = [];
after(() => connections.forEach((connection) => connection.close()));

// open opens a connection with a token for the whole namespace.
async function open(options = {}) {
  const container = rhea.create_container();
  const connection = container.connect({ host, port: 5671, transport: "tls", hostname: host, username: "anonymous", reconnect: false, ...options });
  connections.push(connection);
  await once(connection, "connection_open");
  const reply = connection.open_receiver({ source: "$cbs", target: { address: "replies" }, snd_settle_mode: 1 });
  const request = connection.open_sender("$cbs");
  await Promise.all([once(reply, "receiver_open"), once(request, "sendable")]);
  const answered = once(reply, "message");
  request.send({
    message_id: "1",
    reply_to: "replies",
    application_properties: { operation: "put-token", type: "servicebus.windows.net:sastoken", name: `amqp://${host}/` },
    body: token(`amqp://${host}/`),
  });
  const [{ message }] = await answered;
  assert.equal(message.application_properties["status-code"], 202);
  return connection;
}

// token makes a shared access signature.
function token(resource) {
  const part = (name) => connectionString.match(new RegExp(`${name}=([^;]*)`))[1];
  const end = Math.floor(Date.now() / 1000) + 3600;
  const uri = encodeURIComponent(resource);
  const signature = createHmac("sha256", part("SharedAccessKey")).update(`${uri}\n${end}`).digest("base64");
  return `SharedAccessSignature sr=${uri}&sig=${encodeURIComponent(signature)}&se=${end}&skn=${part("SharedAccessKeyName")}`;
}

async function sender(connection, name) {
  const link = connection.open_sender(name);
  await once(link, "sendable");
  return link;
}

// send sends a message and waits for its outcome.
async function send(link, body) {
  const outcome = Promise.race([once(link, "accepted"), once(link, "rejected").then(([context]) => { throw context.delivery.remote_state.error; })]);
  link.send({ body });
  await outcome;
}

// take gives credit and waits for that many messages.
function take(link, count) {
  return new Promise((resolve) => {
    const contexts = [];
    link.on("message", (context) => {
      contexts.push(context);
      if (contexts.length === count) resolve(contexts);
    });
    link.add_credit(count);
  });
}

const manual = (source, options = {}) => ({ source, credit_window: 0, autoaccept: false, autosettle: false, rcv_settle_mode: 1, ...options });

test("no more messages come than there is credit for", async () => {
  const connection = await open();
  const name = await queue();
  const link = await sender(connection, name);
  for (let n = 0; n < 5; n++) await send(link, n);
  const receiver = connection.open_receiver(manual(name));
  const got = await take(receiver, 2);
  assert.deepEqual(got.map(({ message }) => message.body), [0, 1]);
  let more = 0;
  receiver.on("message", () => more++);
  await new Promise((resolve) => setTimeout(resolve, 300));
  assert.equal(more, 0);
  receiver.add_credit(3);
  while (more < 3) await once(receiver, "message");
});

test("a drain uses up the credit", async () => {
  const connection = await open();
  const receiver = connection.open_receiver(manual(await queue()));
  await once(receiver, "receiver_open");
  receiver.add_credit(10);
  receiver.drain_credit();
  await once(receiver, "receiver_drained");
  assert.equal(receiver.credit, 0);
});

test("the limit of messages is told when a link is attached", async () => {
  const connection = await open();
  const link = await sender(connection, await queue());
  assert.equal(link.max_message_size, 262_144);
});

test("a message of many frames goes both ways", async () => {
  const connection = await open({ max_frame_size: 512 });
  const name = await queue();
  const body = "x".repeat(100_000);
  await send(await sender(connection, name), body);
  const [{ message }] = await take(connection.open_receiver(manual(name)), 1);
  assert.equal(message.body, body);
});

test("many sessions of a connection are served", async () => {
  const connection = await open();
  const name = await queue();
  const links = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const session = connection.create_session();
      session.begin();
      const link = session.open_sender(name);
      await once(link, "sendable");
      return link;
    }),
  );
  await Promise.all(links.map((link, n) => send(link, n)));
  const got = await take(connection.open_receiver(manual(name)), 20);
  assert.deepEqual(got.map(({ message }) => message.body).sort((a, b) => a - b), [...Array(20).keys()]);
});

test("a released message comes again, uncounted", async () => {
  const connection = await open();
  const name = await queue();
  await send(await sender(connection, name), "again");
  const receiver = connection.open_receiver(manual(name));
  const [first] = await take(receiver, 1);
  const second = once(receiver, "message");
  first.delivery.release();
  receiver.add_credit(1);
  const [{ message }] = await second;
  assert.equal(message.body, "again");
  assert.equal(message.delivery_count, 0);
});

test("a connection without traffic is kept open by the server's empty frames", async () => {
  const connection = await open({ idle_time_out: 8000 });
  let lost = false;
  connection.on("disconnected", () => (lost = true));
  await new Promise((resolve) => setTimeout(resolve, 12000));
  assert.equal(lost, false);
  assert.ok(connection.is_open());
});

test("a link's name is free again after its detach", async () => {
  const connection = await open();
  const name = await queue();
  for (let n = 0; n < 3; n++) {
    const link = connection.open_sender({ name: "the-same", target: name });
    await once(link, "sendable");
    await send(link, n);
    link.close();
    await once(link, "sender_close");
  }
});

test("a refused link is detached with the reason", async () => {
  const connection = await open();
  const link = connection.open_receiver(manual(`nothing-${randomUUID()}`));
  const [{ receiver }] = await once(link, "receiver_error");
  assert.equal(receiver.error.condition, "amqp:not-found");
});

test("an unauthorized link is detached with the reason", async () => {
  const container = rhea.create_container();
  const connection = container.connect({ host, port: 5671, transport: "tls", hostname: host, username: "anonymous", reconnect: false });
  connections.push(connection);
  await once(connection, "connection_open");
  const link = connection.open_sender(await queue());
  const [{ sender: refused }] = await once(link, "sender_error");
  assert.equal(refused.error.condition, "amqp:unauthorized-access");
});
