// Package e2e tests the whole pipeline: the two services as processes of their
// own, over real sockets, while processes die and connections fail. Every scenario
// ends with the same check: each read model equals an independent fold of the
// event store, and still does when every message is settled; the topic kept the order
// of each aggregate; nothing is missing; and no process has crashed.
//
// The second projector of a scenario has the receiver of the Azure SDK
// (PENSTOCK_RECEIVER=sdk), all others have Penstock's own. So each scenario with two
// projectors lets its faults happen to both.
//
// PENSTOCK_TEST_BACKEND selects what the services run on: embedded (the
// stand-ins, the default), containers or external; docs/stand-ins.md has the
// details. A test that needs what the backend cannot do is skipped and says what.
package e2e
