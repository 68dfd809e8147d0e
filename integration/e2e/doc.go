// Package e2e tests the whole pipeline: the two services as processes of their
// own, over real sockets, while processes die and connections fail. Every scenario
// ends with the same check: each read model equals an independent fold of the
// event store, and still does when every message is settled; the topic kept the order
// of each aggregate; nothing is missing; and no process has crashed.
//
// PENSTOCK_TEST_BACKEND selects what the services run on: embedded (the
// stand-ins, the default), containers or external; docs/stand-ins.md has the
// details. A test that needs what the backend cannot do is skipped and says what.
package e2e
