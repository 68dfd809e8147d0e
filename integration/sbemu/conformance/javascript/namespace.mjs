// The namespace under test, from the environment that the conformance command sets,
// and entities of their own for each test.
import { randomUUID } from "node:crypto";
import { after } from "node:test";
import { ServiceBusAdministrationClient, ServiceBusClient } from "@azure/service-bus";

export const connectionString = required("SERVICEBUS_CONNECTION_STRING");
export const sendOnly = required("SERVICEBUS_CONNECTION_STRING_SEND_ONLY");
export const listenOnly = required("SERVICEBUS_CONNECTION_STRING_LISTEN_ONLY");
export const host = required("SERVICEBUS_ENDPOINT");

export const administration = new ServiceBusAdministrationClient(connectionString);

// One attempt: a test wants to see the first answer of the server.
const options = { retryOptions: { maxRetries: 0, timeoutInMs: 10_000 } };

const clients = [];

// connect opens a client that is closed after the file's tests.
export function connect(as = connectionString) {
  const client = new ServiceBusClient(as, options);
  clients.push(client);
  return client;
}

after(() => Promise.all(clients.map((client) => client.close())));

// queue creates a queue of the test's own.
export async function queue(properties = {}) {
  const name = `queue-${randomUUID()}`;
  await administration.createQueue(name, properties);
  return name;
}

// topic creates a topic with one subscription of the test's own.
export async function topic(subscriptionProperties = {}, topicProperties = {}) {
  const name = `topic-${randomUUID()}`;
  await administration.createTopic(name, topicProperties);
  await administration.createSubscription(name, "subscription", subscriptionProperties);
  return name;
}

// receive receives that many messages, and fewer if no more come in five seconds.
export async function receive(receiver, count, maxWaitTimeInMs = 5000) {
  const messages = [];
  while (messages.length < count) {
    const batch = await receiver.receiveMessages(count - messages.length, { maxWaitTimeInMs });
    if (batch.length === 0) break;
    messages.push(...batch);
  }
  return messages;
}

// none reports whether nothing comes within a second.
export async function none(receiver) {
  return (await receiver.receiveMessages(1, { maxWaitTimeInMs: 1000 })).length === 0;
}

export const bodies = (messages) => messages.map((message) => message.body);

function required(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: run these tests by the conformance command`);
  return value;
}
