// Package kube tests leadership on Kubernetes. Three publisher processes elect their leader
// by a Lease of a real API server, each with exactly the rights that the chart gives them,
// under load. Meanwhile leaders die, freeze, are disconnected, or lose their Lease, and the
// API server is stopped.
//
// Every test ends with the same checks. Each read model equals an independent fold of the
// event store. The topic misses nothing and kept the order of each aggregate. No two
// processes published in overlapping terms. The check for the last uses the epochs on the
// topic, in the order in which the broker accepted them: after a message of a term, no
// message of an earlier term may be accepted. The only exception is a process that resumes
// after its lease has expired, for one second, because it must first read the clock. Even
// then the late messages must be redundant: without them, the topic must miss nothing and
// keep the order.
//
// The tests need the binaries of a control plane and are skipped without them. `make
// test-kube` builds and names them. They print how long each takeover took.
package kube
