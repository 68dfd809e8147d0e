// Package node runs a real Kubernetes node for tests, beside a control plane of
// package controlplane: kubelet, containerd, runc, a CNI bridge, kube-proxy, CoreDNS
// and, on request, metrics-server.
//
//	code, inside, err := node.Enter()	// in TestMain
//	…
//	n, err := node.Start(ctx, node.Options{Tools: tools, Dir: dir, Control: cp})
//	err = n.Import(ctx, archive)
//
// [Enter] runs the program again inside network, mount and process namespaces of its
// own. The node, the control plane and the tests all live there:
//
//	program ─▶ init, process 1 ─▶ program inside ─▶ control plane, containerd, kubelet …
//	              └ reaps orphans                       └ shims ─▶ pods
//
// Whenever the program inside ends, process 1 ends too, and the kernel ends every process,
// mount, link and packet filter rule of the node. Nothing on the machine outside changes,
// except a cgroup and a folder of temporary files, which [Enter] removes. No packet leaves
// the namespaces.
//
// The node needs Linux and root: see [Requirements]. It has run on cgroup v1. The code for
// cgroup v2 follows the kubelet's documentation and has not been run.
//
// NetworkPolicies are not enforced, because the bridge plugin does not support them.
package node
