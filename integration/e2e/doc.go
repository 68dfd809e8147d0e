// Package e2e tests the whole pipeline: the two services as processes of their
// own, over stand-ins on real sockets, while processes die and connections fail.
// Every test ends with the same check: each read model equals an independent fold
// of the event store, the topic kept the order of each aggregate, and nothing is
// missing.
package e2e
