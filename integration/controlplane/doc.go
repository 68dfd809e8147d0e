// Package controlplane runs a real Kubernetes control plane for tests: etcd and
// kube-apiserver, and on request the controllers, the scheduler and a kwok that
// plays kubelet, on loopback ports, with certificates of their own and RBAC on.
//
//	cp, err := controlplane.Start(ctx, controlplane.Options{Tools: tools, Dir: dir})
//	…
//	account, err := cp.ServiceAccount(ctx, "penstock", "publisher", rules)
//	err = cp.WriteKubeconfig(path, cp.URL(), account)
//
// The binaries are built from their Go modules by `make kube-tools`.
// [ControlPlane.Command] runs helm and kubectl, and [ControlPlane.Extend] adds an API
// to the API server, such as one of metrics. [Proxy] cuts a single client off, and
// signals to [ControlPlane.APIServer] all of them.
//
// The control plane serves tests and nothing else: etcd does not sync to disk, and
// whoever can read Dir is its administrator.
package controlplane
