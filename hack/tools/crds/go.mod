// The definitions of other people's resources that the chart makes: KEDA's and the
// Prometheus operator's. Only their YAML is read, so nothing they require is here.
module github.com/penstock-cdc/penstock/hack/tools/crds

go 1.26.0

require (
	github.com/kedacore/keda/v2 v2.21.0
	github.com/prometheus-operator/prometheus-operator v0.85.0
)
