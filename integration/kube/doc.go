// Package kube tests leadership on Kubernetes: three publisher processes that elect
// their leader by a Lease of a real API server, each with the rights that the chart
// gives them and no others, under load, while leaders die, freeze, are cut off, or
// lose their Lease, and while the API server is away.
//
// Every test ends with the same checks: each read model equals an independent fold
// of the event store, the topic misses nothing and kept the order of each aggregate,
// and no two processes published in overlapping terms. The last is told from the
// epochs on the topic, in the order in which the broker accepted: once a message
// of a term was accepted, none of an earlier term is. Only a process that thaws after
// its lease has run out is excused, for a second: it cannot know before it looks.
// Even then the late messages must be redundant: without them, the topic misses
// nothing and keeps the order all the same.
//
// The tests need the binaries of a control plane and skip without them: `make
// test-kube` builds and names them. They print how long each takeover took.
package kube
