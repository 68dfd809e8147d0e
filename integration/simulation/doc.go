// Package simulation runs whole pipelines in virtual time: publishers, projectors, the
// stand-ins of MongoDB and Service Bus, writers and operators, inside one bubble of
// testing/synctest and over a network in memory. Waiting costs nothing, so a history of
// minutes, with its lease expiries, outages and rebuilds, passes in seconds.
//
//	seed ──▶ Plan: settings, writers, faults with their times
//	           │
//	           ▼
//	         World ──▶ Network ──┬── mongoemu ◀── writers, readers
//	           │       latency,  ├── sbemu
//	           │       cut, hold ├── publishers ×n
//	           │                 └── projectors ×n
//	           ▼
//	         History: commits, acknowledged messages, terms, checkpoints, reads, log lines
//	           │
//	           ▼
//	         promises G1 to G8, each a validator over the history
//
// A history has one or two pipelines, each a [World], on the same servers.
//
// One seed is one [Plan]. A plan is data: it prints as text, and [Shrink] removes faults from
// it while it still fails. Most failures repeat with their seed, though not all: goroutines
// that are ready at the same virtual instant run in any order.
//
// What a simulation cannot show is the task of tests with processes: sockets of the kernel,
// signals, memory limits, TLS, browsers and Kubernetes.
package simulation
