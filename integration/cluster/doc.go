// Package cluster tests the chart, and the services as its pods, on a real Kubernetes node
// of package node. It installs them as the README describes, rolls them out under load, and
// makes pods, nodes, the API server, the broker and MongoDB fail. The stand-ins are pods
// too.
//
// Each scenario ends with every read model equal to the fold of the event store. The tests
// print a table: the event, how often containers restarted, and how long it took until new
// events reached their read models again.
//
// They need Linux and root; `make test-cluster` runs them.
package cluster
