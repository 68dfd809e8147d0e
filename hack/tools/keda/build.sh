#!/bin/sh
# Builds KEDA for tests into a folder: its operator, its metrics server, and the manifests
# that install them. All of it comes from KEDA's Go module. Results of the same version
# are not rebuilt. The first build compiles 3,700 packages and takes long.
#
#	hack/tools/keda/build.sh .cache/keda-tools
set -eu

mkdir -p "$1"
out=$(cd "$1" && pwd)
tools=$(cd "$(dirname "$0")/.." && pwd)
. "$tools/cached.sh"
export CGO_ENABLED=0

keda=github.com/kedacore/keda/v2
build operator keda $keda/cmd/operator
build adapter keda $keda/cmd/adapter

bases=config/crd/bases
collect crds.yaml keda $keda \
	$bases/eventing.keda.sh_cloudeventsources $bases/eventing.keda.sh_clustercloudeventsources \
	$bases/keda.sh_clustertriggerauthentications $bases/keda.sh_scaledjobs \
	$bases/keda.sh_scaledobjects $bases/keda.sh_triggerauthentications
collect keda.yaml keda $keda \
	config/general/namespace config/service_account/service_account \
	config/manager/manager config/manager/service \
	config/metrics-server/deployment config/metrics-server/service config/metrics-server/api_service
