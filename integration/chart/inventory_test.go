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
	// settleTimeout bounds each wait for what must come to be.
	settleTimeout = 2 * time.Minute
	// poll is how often a condition is looked at.
	poll = 100 * time.Millisecond
)

// await polls until the condition holds; it says what it saw last, if it does not.
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

// inventory is every object that the API server has, of every kind, but for the
// Events and what Kubernetes keeps in namespaces of its own.
func inventory(t *testing.T) map[string]bool {
	t.Helper()
	config := suite.control.Admin()
	// It looks at deprecated kinds, too.
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

// difference says what is in one inventory and not in the other.
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
