package chart_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

const (
	// settleTimeout bounds each wait for a condition.
	settleTimeout = 2 * time.Minute
	// poll is the interval at which a condition is checked.
	poll = 100 * time.Millisecond
)

// await polls until the condition holds. If it does not hold in time, await fails with the
// last seen state.
func await(t *testing.T, what string, holds func() (ok bool, seen string)) {
	t.Helper()
	timeout := time.NewTimer(settleTimeout)
	defer timeout.Stop()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		ok, seen := holds()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-timeout.C:
			t.Fatalf("%s: not within %s: %s", what, settleTimeout, seen)
		}
	}
}

// inventory returns every object of the API server, of every kind, except Events and the
// objects in Kubernetes' own namespaces.
func inventory(t *testing.T) map[string]bool {
	t.Helper()
	config := suite.control.Admin()
	// Deprecated kinds are listed too, so ignore their warnings.
	config.WarningHandlerWithContext = rest.NoWarnings{}
	resources, err := discovery.NewDiscoveryClientForConfig(config)
	must(t, err)
	client, err := metadata.NewForConfig(config)
	must(t, err)
	lists, err := resources.ServerPreferredResourcesWithContext(t.Context())
	must(t, err)
	objects := make(map[string]bool)
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		must(t, err)
		for _, resource := range list.APIResources {
			if !slices.Contains(resource.Verbs, "list") || resource.Name == "events" || resource.Name == "componentstatuses" {
				continue
			}
			all, err := client.Resource(version.WithResource(resource.Name)).List(t.Context(), metav1.ListOptions{})
			must(t, err)
			for _, object := range all.Items {
				if strings.HasPrefix(object.Namespace, "kube-") {
					continue
				}
				objects[strings.Join([]string{list.GroupVersion, resource.Name, object.Namespace, object.Name}, " ")] = true
			}
		}
	}
	return objects
}

// difference describes the differences between two inventories.
func difference(before, after map[string]bool) string {
	var lines []string
	for _, object := range slices.Sorted(maps.Keys(after)) {
		if !before[object] {
			lines = append(lines, "more: "+object)
		}
	}
	for _, object := range slices.Sorted(maps.Keys(before)) {
		if !after[object] {
			lines = append(lines, "less: "+object)
		}
	}
	return strings.Join(lines, "\n")
}
