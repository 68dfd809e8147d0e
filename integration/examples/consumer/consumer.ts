// An example of another service that reads the topic to which Penstock publishes. It
// prints each event of a subscription once, and the events of an aggregate in order.
//
// It accepts one session after the other, so the subscription must have sessions enabled.
// Copy `handle`, and replace its output with your own work.
import { isServiceBusError, ServiceBusClient } from "@azure/service-bus";
import type { ServiceBusReceivedMessage, ServiceBusSessionReceiver } from "@azure/service-bus";

const client = new ServiceBusClient(required("AZURE_SERVICEBUS_CONNECTION_STRING"));
const topic = required("AZURE_SERVICEBUS_TOPIC_NAME");
const subscription = required("AZURE_SERVICEBUS_SUBSCRIPTION_NAME");

// How long to wait for more messages of a session before the next one is accepted.
const maxWaitTimeInMs = 1000;

// The application properties of a message. docs/subscribers.md lists all of them.
interface Properties {
  aggregateId: string;
  eventId: number;
  claimCheck?: boolean;
}

// The id of the last event that was handled, by aggregate. Penstock delivers at least
// once, so an event can be delivered again. A real service keeps this beside its own data
// and changes both in one transaction, or a crash between the two handles an event twice.
const lastEventId = new Map<string, number>();

// handle handles one message, and ignores an event that was handled before.
function handle(message: ServiceBusReceivedMessage): void {
  const { aggregateId, eventId, claimCheck } = message.applicationProperties as unknown as Properties;
  if (eventId <= (lastEventId.get(aggregateId) ?? -1)) return;
  if (message.contentType !== "application/json") {
    // The event has a type that JSON does not have. Parse it with the package bson.
    throw new Error(`event ${message.messageId} is ${message.contentType}`);
  }
  if (claimCheck) {
    // The event is too large for the topic. Read its payload from the event store.
    throw new Error(`event ${message.messageId} has no payload on the topic`);
  }
  const event = { aggregateId, eventId, type: message.subject, payload: exact(message.body.payload) };
  console.log(JSON.stringify(event, (_, value) => (typeof value === "bigint" ? `${value}` : value)));
  lastEventId.set(aggregateId, eventId);
}

// exact replaces each {"$numberLong": "…"} by a BigInt. Penstock writes an integer in this form
// if a number of JavaScript cannot hold it.
function exact(value: unknown): unknown {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(exact);
  if ("$numberLong" in value) return BigInt(value.$numberLong as string);
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, exact(inner)]));
}

// drain handles the messages of one session until no more arrive. The broker delivers a
// message again if it is not completed. After the subscription's maximum of deliveries
// the broker moves it to the dead-letter queue.
async function drain(session: ServiceBusSessionReceiver): Promise<void> {
  for (;;) {
    const messages = await session.receiveMessages(100, { maxWaitTimeInMs });
    if (messages.length === 0) return;
    for (const message of messages) {
      handle(message);
      await session.completeMessage(message);
    }
  }
}

let stopped = false;
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, () => {
    stopped = true;
    void client.close();
  });
}

while (!stopped) {
  let session: ServiceBusSessionReceiver | undefined;
  try {
    session = await client.acceptNextSession(topic, subscription);
    await drain(session);
  } catch (error) {
    // No session has messages at present, or another consumer took it: try again.
    const again = isServiceBusError(error) && ["ServiceTimeout", "SessionCannotBeLocked", "SessionLockLost"].includes(error.code);
    if (!stopped && !again) throw error;
  } finally {
    if (!stopped) await session?.close();
  }
}

function required(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set`);
  return value;
}
