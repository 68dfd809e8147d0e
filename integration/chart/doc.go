// Package chart tests the Helm chart on a real Kubernetes control plane with the real helm.
// The API server accepts every set of values in charts/penstock/ci without a warning, in a
// namespace that enforces the restricted pod security standard. Package cluster installs,
// upgrades, rolls back and uninstalls releases with real pods. Package kube tests the
// services on Kubernetes.
//
// The tests need the binaries of a control plane and skip without them: `make
// test-kube` builds and names them.
package chart
