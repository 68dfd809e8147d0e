// Package inventory measures what can fill up or run out without notice: the records in the
// quarantine, and how far the oplog reaches back before the checkpoint. Every running process
// measures them, not only the leader.
//
// The quarantine is counted by the index of its _id, within one stream, and up to a limit.
//
// Reading the oplog's oldest entry needs the role read on the database local, or
// clusterMonitor. Without either, and through a mongos, that metric is absent. The publisher
// logs that once, and asks again an hour later.
//
// If a number can no longer be measured, its metric becomes absent after three intervals.
// It is neither stale nor 0.
package inventory
