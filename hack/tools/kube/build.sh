#!/bin/sh
# Builds a Kubernetes control plane for tests into a folder: etcd, kube-apiserver,
# kube-controller-manager, kube-scheduler, kubectl, and kwok with the stages that make
# its nodes and pods ready; and the definitions of the resources of others that the
# chart makes. All of it comes from Go modules, by the versions in the go.mod files
# beside this one. What is there of the same versions stays.
#
#	hack/tools/kube/build.sh .cache/kube-tools
set -eu

mkdir -p "$1"
out=$(cd "$1" && pwd)
tools=$(cd "$(dirname "$0")/.." && pwd)
export GOWORK=off CGO_ENABLED=0

# build makes a binary from a package of a tools module. Beside it lies what it was
# made from.
build() {
	name=$1 module=$2 package=$3 flags=${4-}
	from="$(cat "$tools/$module/go.mod") -ldflags $flags"
	if [ -x "$out/$name" ] && [ "$(cat "$out/$name.from" 2>/dev/null)" = "$from" ]; then
		return
	fi
	echo "build $name"
	(cd "$tools/$module" && go build -trimpath -ldflags "-s -w $flags" -o "$out/$name" "$package")
	echo "$from" >"$out/$name.from"
}

# Without it the API server calls itself v0.0.0, and charts ask for a version.
kubernetes=$(cd "$tools/kube" && go list -m -f '{{.Version}}' k8s.io/kubernetes)
minor=${kubernetes#v1.}
at=k8s.io/component-base/version
stamp="-X $at.gitVersion=$kubernetes -X $at.gitMajor=1 -X $at.gitMinor=${minor%%.*}"

build etcd etcd go.etcd.io/etcd/server/v3
for name in kube-apiserver kube-controller-manager kube-scheduler kubectl; do
	build "$name" kube "k8s.io/kubernetes/cmd/$name" "$stamp"
done
build kwok kwok sigs.k8s.io/kwok/cmd/kwok

# collect joins YAML files of a tools module's requirement.
collect() {
	name=$1 module=$2 package=$3
	shift 3
	from="$(cat "$tools/$module/go.mod") $*"
	if [ "$(cat "$out/$name.from" 2>/dev/null)" = "$from" ]; then
		return
	fi
	(cd "$tools/$module" && go mod download "$package")
	folder=$(cd "$tools/$module" && go list -m -f '{{.Dir}}' "$package")
	for file in "$@"; do
		echo ---
		cat "$folder/$file.yaml"
	done >"$out/$name"
	echo "$from" >"$out/$name.from"
}

stages=kustomize/stage
collect kwok-stages.yaml kwok sigs.k8s.io/kwok \
	$stages/node/fast/node-initialize $stages/node/heartbeat/node-heartbeat \
	$stages/pod/fast/pod-ready $stages/pod/fast/pod-complete $stages/pod/fast/pod-delete
bases=config/crd/bases
collect crds-keda.yaml crds github.com/kedacore/keda/v2 \
	$bases/keda.sh_scaledobjects $bases/keda.sh_triggerauthentications
bases=example/prometheus-operator-crd
collect crds-prometheus.yaml crds github.com/prometheus-operator/prometheus-operator \
	$bases/monitoring.coreos.com_podmonitors $bases/monitoring.coreos.com_prometheusrules
