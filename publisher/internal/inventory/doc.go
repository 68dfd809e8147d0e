// Package inventory measures what can run full or run out unnoticed: the records in the
// quarantine, the messages in the topic, and how far the oplog reaches back before the
// checkpoint. Every process measures them while it runs, also one that does not lead.
//
// The quarantine is counted by the index of its _id, within one stream, and up to a
// limit. The topic's size and its size limit are in its properties. Reading them needs
// the right to manage the namespace (the Manage claim, or Azure Service Bus Data
// Owner), which the publisher does not need otherwise. Without it the two metrics
// are absent, the publisher logs that once, and asks the topic again an hour later.
//
// Reading the oplog's oldest entry needs the role read on the database local, or
// clusterMonitor. Without either, and through a mongos, that metric is absent in the same
// way.
//
// If a number cannot be measured again, its metric is absent after three intervals. It
// is neither stale nor 0.
package inventory
