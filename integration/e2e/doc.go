// Package e2e tests the whole pipeline: the two services run as processes, over real
// sockets, while processes die and connections fail. Every scenario ends with the same
// checks. Each read model equals an independent fold of the event store, also after every
// message is settled. The topic kept the order of each aggregate, and no event is missing.
// No process has crashed.
//
// The second projector of a scenario uses the receiver of the Azure SDK
// (PENSTOCK_RECEIVER=sdk), all others use Penstock's own. So the faults of each scenario
// with two projectors happen to both.
//
// With the build tag simulation, on the stand-ins, a scenario that needs no real processes
// (see scene) runs in virtual time instead: in one process and over a network in memory.
// With -short, the others are skipped (see needsProcesses).
//
// PENSTOCK_TEST_BACKEND selects the servers: embedded (the stand-ins, the default),
// containers or external; docs/stand-ins.md has the details. If the backend cannot inject a
// test's fault, the test is skipped and names the fault.
package e2e
