// Package inventory measures what piles up while nobody looks: the records in the
// quarantine, and the messages in the topic. Both are measured beside publishing, by
// every process, whether it leads or not: take the largest number.
//
// The quarantine is counted by the index of its _id, within one stream, and up to a
// limit. The topic's size and the size it may have are in its properties, which take
// the right to manage the namespace (the Manage claim, or Azure Service Bus Data
// Owner). The publisher does not need that right otherwise: without it the two metrics
// are absent, the log says so once, and the topic is asked again an hour later.
//
// A number that cannot be measured again is absent after three intervals: it is neither
// stale nor 0.
package inventory
