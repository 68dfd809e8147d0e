#!/bin/sh
# Builds a Kubernetes control plane for tests into a folder: etcd, kube-apiserver,
# kube-controller-manager, kube-scheduler and kubectl. It also collects the definitions of the custom resources that the
# chart creates. All of it comes from Go modules, with the versions in the go.mod files of
# the folders beside this one. Results of the same versions are not rebuilt.
#
#	hack/tools/kube/build.sh .cache/kube-tools
set -eu

mkdir -p "$1"
out=$(cd "$1" && pwd)
tools=$(cd "$(dirname "$0")/.." && pwd)
. "$tools/cached.sh"
export CGO_ENABLED=0

# Without this version the API server reports v0.0.0, and charts require a minimum
# version.
kubernetes=$(cd "$tools/kube" && go list -m -f '{{.Version}}' k8s.io/kubernetes)
minor=${kubernetes#v1.}
at=k8s.io/component-base/version
stamp="-X $at.gitVersion=$kubernetes -X $at.gitMajor=1 -X $at.gitMinor=${minor%%.*}"

build etcd etcd go.etcd.io/etcd/server/v3
for name in kube-apiserver kube-controller-manager kube-scheduler kubectl; do
	build "$name" kube "k8s.io/kubernetes/cmd/$name" "$stamp"
done

bases=config/crd/bases
collect crds-keda.yaml crds github.com/kedacore/keda/v2 \
	$bases/keda.sh_scaledobjects $bases/keda.sh_triggerauthentications
bases=example/prometheus-operator-crd
collect crds-prometheus.yaml crds github.com/prometheus-operator/prometheus-operator \
	$bases/monitoring.coreos.com_podmonitors $bases/monitoring.coreos.com_prometheusrules
