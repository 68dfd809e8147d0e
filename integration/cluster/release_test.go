//go:build linux

package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/penstock-cdc/penstock/integration/controlplane"
	"github.com/penstock-cdc/penstock/integration/harness"
)

// release is a release of the chart for a pipeline.
type release struct {
	*pipeline
	name string
	// values are added to the README's values.
	values []string
}

func (p *pipeline) release(values ...string) *release {
	return &release{pipeline: p, name: "shop", values: values}
}

// args returns the arguments of the README and docs/install.md.
func (r *release) args(more ...string) []string {
	args := []string{
		"upgrade", "--install", r.name, chart, "--namespace", r.namespace,
		"--set-file", `projector.projections.files.shop\.yaml=` + r.projections(),
		"--set", "mongodb.existingSecret=mongodb,serviceBus.existingSecret=servicebus,serviceBus.subscription=projector,serviceBus.topic=events",
		"--set", "mongodb.events.database=" + harness.EventsDatabase + ",mongodb.state.database=" + harness.StateDatabase + ",mongodb.readModels.database=" + harness.ReadModelsDatabase,
		"--set", "tests.image.repository=penstock.local/curl,tests.image.tag=" + curlTag,
	}
	for _, value := range r.values {
		args = append(args, "--set", value)
	}
	return append(args, more...)
}

// upgrade installs or upgrades the release and waits until its pods are ready. It returns
// the notes and the duration.
func (r *release) upgrade(more ...string) (notes string, took time.Duration) {
	r.t.Helper()
	begun := time.Now()
	notes = helm(r.t, r.args(append([]string{"--wait", "--rollback-on-failure", "--timeout", settleTimeout.String()}, more...)...)...)
	return notes, time.Since(begun)
}

func (r *release) publisher() *appsv1.StatefulSet {
	r.t.Helper()
	set, err := suite.client.AppsV1().StatefulSets(r.namespace).Get(r.t.Context(), r.name+"-penstock-publisher", metav1.GetOptions{})
	must(r.t, err)
	return set
}

func (r *release) projector() *appsv1.Deployment {
	r.t.Helper()
	deployment, err := suite.client.AppsV1().Deployments(r.namespace).Get(r.t.Context(), r.name+"-penstock-projector", metav1.GetOptions{})
	must(r.t, err)
	return deployment
}

// pods returns the release's pods of a component; all if component is empty.
func (r *release) pods(component string) []corev1.Pod {
	r.t.Helper()
	selector := "app.kubernetes.io/instance=" + r.name
	if component != "" {
		selector += ",app.kubernetes.io/component=" + component
	}
	var pods []corev1.Pod
	// The API server may be away for a moment.
	await(r.t, "a list of pods", func() (bool, string) {
		list, err := suite.client.CoreV1().Pods(r.namespace).List(r.t.Context(), metav1.ListOptions{LabelSelector: selector})
		if err == nil {
			pods = list.Items
		}
		return err == nil, fmt.Sprint(err)
	})
	return pods
}

// restartCounts returns the restarts of the containers of the release's pods, by pod.
func (r *release) restartCounts() map[types.UID]int32 {
	r.t.Helper()
	counts := make(map[types.UID]int32)
	for _, pod := range r.pods("") {
		for _, status := range pod.Status.ContainerStatuses {
			counts[pod.UID] += status.RestartCount
		}
	}
	return counts
}

// restarts counts the restarts of the present pods.
func (r *release) restarts() int { return r.restartsSince(nil) }

// restartsSince counts the restarts of the present pods since restartCounts returned
// before.
func (r *release) restartsSince(before map[types.UID]int32) int {
	r.t.Helper()
	sum := 0
	for uid, count := range r.restartCounts() {
		sum += int(count - before[uid])
	}
	return sum
}

// readyPods returns the release's ready pods of a component.
func (r *release) readyPods(component string) []corev1.Pod {
	r.t.Helper()
	var ready []corev1.Pod
	for _, pod := range r.pods(component) {
		if pod.DeletionTimestamp == nil && isReady(&pod) {
			ready = append(ready, pod)
		}
	}
	return ready
}

// replicas is the chart's default number of pods of either service.
const replicas = 2

// awaitReady waits until the default number of a component's pods are ready.
func (r *release) awaitReady(component string) {
	r.t.Helper()
	await(r.t, fmt.Sprintf("%d pods of the %s", replicas, component), func() (bool, string) {
		ready := len(r.readyPods(component))
		return ready == replicas, fmt.Sprintf("%d are ready", ready)
	})
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// leader returns the pod that holds the Lease.
func (r *release) leader() *corev1.Pod {
	r.t.Helper()
	var leader *corev1.Pod
	await(r.t, "a leader", func() (bool, string) {
		lease, err := suite.client.CoordinationV1().Leases(r.namespace).Get(r.t.Context(), r.name+"-penstock-publisher", metav1.GetOptions{})
		if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
			return false, fmt.Sprintf("the lease has no holder (%v)", err)
		}
		for _, pod := range r.readyPods("publisher") {
			if holder := *lease.Spec.HolderIdentity; len(holder) > len(pod.Name) && holder[:len(pod.Name)+1] == pod.Name+"_" {
				leader = &pod
				return true, ""
			}
		}
		return false, "its holder " + *lease.Spec.HolderIdentity + " is not ready"
	})
	return leader
}

// report logs the objects of a namespace, for a failed test.
func report(t *testing.T, namespace string) {
	t.Helper()
	for _, args := range [][]string{
		{"-n", namespace, "get", "pods,hpa", "-o", "wide"},
		{"describe", "nodes"},
		{"-n", namespace, "get", "events", "--sort-by=.metadata.creationTimestamp"},
		{"-n", namespace, "logs", "-l", "app.kubernetes.io/component=publisher", "--all-containers", "--tail=15", "--prefix"},
		{"-n", namespace, "logs", "-l", "app.kubernetes.io/component=projector", "--all-containers", "--tail=15", "--prefix"},
		{"-n", namespace, "logs", "deployment/mongo", "--tail=10"},
	} {
		out, err := command(context.WithoutCancel(t.Context()), controlplane.Kubectl, args...)
		t.Logf("kubectl %v: %v\n%s", args, err, out)
	}
	t.Log(suite.node.Report())
}
