// Package inventory measures two things that can grow unnoticed: the records in the
// quarantine, and the messages in the topic. Every process measures both while it runs,
// also one that does not lead: take the largest number.
//
// The quarantine is counted by the index of its _id, within one stream, and up to a
// limit. The topic's size and its size limit are in its properties. Reading them needs
// the right to manage the namespace (the Manage claim, or Azure Service Bus Data
// Owner), which the publisher does not need otherwise. Without it the two metrics
// are absent, the publisher logs that once, and asks the topic again an hour later.
//
// If a number cannot be measured again, its metric is absent after three intervals. It
// is neither stale nor 0.
package inventory
