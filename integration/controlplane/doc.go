// Package controlplane runs a real Kubernetes control plane for tests: etcd and
// kube-apiserver and, for a node, the controllers and the scheduler. They listen on loopback ports, with their own certificates and with RBAC.
//
//	cp, err := controlplane.Start(ctx, controlplane.Options{Tools: tools, Dir: dir})
//	…
//	account, err := cp.ServiceAccount(ctx, "penstock", "publisher", rules)
//	err = cp.WriteKubeconfig(path, account)
//
// `make kube-tools` builds the binaries from their Go modules. [ControlPlane.Command] runs
// helm and kubectl. Signals to [ControlPlane.APIServer] affect all clients.
//
// The control plane is for tests only: etcd does not sync to disk, and every user who can
// read Dir is its administrator.
package controlplane
