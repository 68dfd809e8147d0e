package chart_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/integration/controlplane"
)

// The API server accepts the chart's objects for every set of values, and warns of nothing:
// neither of deprecated or unknown fields, nor of pods that the restricted pod security
// standard forbids.
func TestDryRun(t *testing.T) {
	start(t)
	sets, err := filepath.Glob(values + "/*.yaml")
	must(t, err)
	if len(sets) == 0 {
		t.Fatal("there are no sets of values in " + values)
	}
	matrix := map[string][]string{
		"azure-monitor": {"--values", values + "/identity.yaml", "--set", "metrics.podMonitor.apiVersion=azmonitoring.coreos.com/v1"},
		// No file of values, as in the README.
		"flags": {"--set", "mongodb.existingSecret=mongodb,serviceBus.existingSecret=servicebus,serviceBus.topic=events,serviceBus.subscription=projector",
			"--set-file", `projector.projections.files.shop\.yaml=testdata/users.yaml`},
	}
	// Null removes a map that Kubernetes defines. The security contexts stay, for the standard.
	var nulls []string
	for _, service := range []string{"publisher", "projector"} {
		for _, value := range []string{"resources", "updateStrategy", "probes.startup", "probes.liveness", "probes.readiness", "topologySpreadConstraints"} {
			nulls = append(nulls, service+"."+value+"=null")
		}
	}
	matrix["nulls"] = []string{"--values", values + "/minimal.yaml", "--set", strings.Join(nulls, ",")}
	for _, set := range sets {
		matrix[strings.TrimSuffix(filepath.Base(set), ".yaml")] = []string{"--values", set}
	}
	const name = "dry-run"
	namespace(t, name)
	// Some of the objects are in other namespaces.
	for _, other := range []string{"leases", "monitoring"} {
		kubectl(t, "create", "namespace", other)
	}
	for set, args := range matrix {
		t.Run(set, func(t *testing.T) {
			objects := helm(t, append([]string{"template", "shop", chart, "--namespace", name}, args...)...)
			answer := succeeds(t, objects, controlplane.Kubectl, "apply", "--dry-run=server", "--filename", "-")
			took, made := strings.Count(answer, "(server dry run)"), strings.Count(objects, "\nkind: ")
			if took != made || made == 0 {
				t.Errorf("the API server took %d objects of %d:\n%s", took, made, answer)
			}
		})
	}
}
