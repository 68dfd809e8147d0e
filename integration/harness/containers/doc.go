// Package containers runs servers in containers: MongoDB as a replica set of one node, and
// Microsoft's Service Bus emulator with its SQL Server, or images that stand in for them
// (make test-containers). It needs a Docker engine. It is a separate package, so that only
// tests have its dependencies.
//
// The package respects the emulator's limits: 10 connections at the same time, no
// partitioned entities, messages that live for an hour at most, and duplicate detection
// over 5 minutes at most
// (https://learn.microsoft.com/azure/service-bus-messaging/overview-emulator). It makes
// topics by the emulator's administration API, which exists since version 2.0, over plain
// HTTP on a port of its own.
package containers
