// Package chart tests the Helm chart on a real Kubernetes control plane with the real helm.
// The API server accepts every set of values in charts/penstock/ci without a warning, in a
// namespace that enforces the restricted pod security standard. A release goes through
// installation, upgrades and a rollback to an uninstallation that leaves nothing behind.
// Package cluster tests the autoscaler, by the CPU of real pods.
//
// The controllers and the scheduler are real too. kwok simulates nodes and kubelets, so
// pods become ready without running programs. Package kube tests the services on
// Kubernetes.
//
// The tests need the binaries of a control plane and skip without them: `make
// test-kube` builds and names them.
package chart
