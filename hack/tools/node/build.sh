#!/bin/sh
# Builds the programs of a Kubernetes node into a folder: kubelet, kube-proxy, containerd
# with its shim and ctr, runc, the CNI plugins, CoreDNS and metrics-server. All of it
# comes from Go modules, with the versions in the go.mod files of the folders beside this
# one. Results of the same versions are not rebuilt.
#
#	hack/tools/node/build.sh .cache/node-tools
#
# runc needs a C compiler, pkg-config and libseccomp's headers (libseccomp-dev on
# Debian).
set -eu

mkdir -p "$1/cni"
out=$(cd "$1" && pwd)
tools=$(cd "$(dirname "$0")/.." && pwd)
. "$tools/cached.sh"

if ! pkg-config --exists libseccomp 2>/dev/null; then
	echo "runc needs libseccomp's headers and pkg-config: apt-get install libseccomp-dev pkg-config" >&2
	exit 1
fi
export CGO_ENABLED=1
build runc runc github.com/opencontainers/runc "" seccomp

export CGO_ENABLED=0
plugins=github.com/containernetworking/plugins/plugins
build cni/bridge cni $plugins/main/bridge
build cni/loopback cni $plugins/main/loopback
build cni/host-local cni $plugins/ipam/host-local
build cni/portmap cni $plugins/meta/portmap

containerd=github.com/containerd/containerd/v2
for name in containerd containerd-shim-runc-v2 ctr; do
	build "$name" containerd "$containerd/cmd/$name"
done

kubernetes=$(cd "$tools/kube" && go list -m -f '{{.Version}}' k8s.io/kubernetes)
for name in kubelet kube-proxy; do
	build "$name" kube "k8s.io/kubernetes/cmd/$name" "-X k8s.io/component-base/version.gitVersion=$kubernetes"
done
build coredns coredns .
build metrics-server metrics-server sigs.k8s.io/metrics-server/cmd/metrics-server
