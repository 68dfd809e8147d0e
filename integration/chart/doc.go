// Package chart tests the Helm chart on a real Kubernetes control plane with the real
// helm: every set of values in charts/penstock/ci is taken by the API server without
// a warning, in a namespace that enforces the restricted pod security standard, and a
// release lives its whole life, from the installation through upgrades, a rollback
// and an autoscaler to an uninstallation that leaves nothing behind.
//
// The controllers and the scheduler are real as well; nodes and kubelets are played
// by kwok, so pods become ready and run nothing. What the services do on Kubernetes is
// the matter of package kube.
//
// The tests need the binaries of a control plane and skip without them: `make
// test-kube` builds and names them.
package chart
