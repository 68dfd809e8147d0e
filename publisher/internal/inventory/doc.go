// Package inventory measures what can fill up or run out without notice: the records in the
// quarantine, the messages in the topic, and how far the oplog reaches back before the
// checkpoint. Every running process measures them, not only the leader.
//
// The quarantine is counted by the index of its _id, within one stream, and up to a limit.
// The topic's properties have its size and its size limit. Reading them needs the right to
// manage the namespace (the Manage claim, or Azure Service Bus Data Owner), which the
// publisher needs for nothing else. Without that right the two metrics are absent. The
// publisher logs that once, and asks the topic again an hour later.
//
// Reading the oplog's oldest entry needs the role read on the database local, or
// clusterMonitor. Without either, and through a mongos, that metric is absent in the same
// way.
//
// If a number can no longer be measured, its metric becomes absent after three intervals.
// It is neither stale nor 0.
package inventory
