// Package containers runs what the stand-ins stand in for in containers: MongoDB
// as a replica set of one node, and Microsoft's Service Bus emulator with the SQL
// Server that it keeps its messages in. It needs a Docker engine. It is a package
// of its own so that only tests carry what it depends on.
//
// The emulator's limits are kept: 10 connections at a time, no partitioned
// entities, messages that live for an hour at most, duplicate detection over 5
// minutes at most (https://learn.microsoft.com/azure/service-bus-messaging/overview-emulator).
// Topics are made by its administration API, which it has since version 2.0, over
// plain HTTP on a port of its own.
package containers
