// Stores events for Penstock. store.go is the same in Go.
import { Long, MongoServerError } from "mongodb";

// Conflict says that another writer has appended to the aggregate since the caller read it.
// Read the aggregate again, decide again, and append again.
export class Conflict extends Error {}

// openStore creates the unique index, if it is missing: with it, MongoDB refuses a second event with
// the same id. Penstock reads histories by the same index.
export async function openStore(events) {
  await events.createIndex({ aggregateId: 1, eventId: 1 }, { unique: true });
  return events;
}

// version gives the id of the aggregate's last event, 0 if it has none.
export async function version(events, aggregateId) {
  const last = await events.findOne({ aggregateId }, { sort: { eventId: -1 }, projection: { eventId: 1 } });
  return last ? Number(last.eventId) : 0;
}

// append stores events ({type, payload}) after a version, the last event that the caller has seen,
// and gives the new version. Several events are stored together or not at all. It throws a Conflict
// if another writer was faster. After another error the events may be stored: read the version again.
export async function append(client, events, aggregateType, aggregateId, after, ...decided) {
  const timestamp = new Date();
  const documents = decided.map(({ type, payload }, i) => ({
    aggregateId, aggregateType, eventId: Long.fromNumber(after + i + 1), eventType: type, timestamp, payload,
  }));
  try {
    await client.withSession((session) => session.withTransaction(() => events.insertMany(documents, { session })));
  } catch (error) {
    if (error instanceof MongoServerError && error.code === 11000) throw new Conflict(`another writer has appended to ${aggregateId}`, { cause: error });
    throw error;
  }
  return after + documents.length;
}
