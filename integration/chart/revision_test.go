package chart_test

import (
	"fmt"
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-cdc/penstock/integration/controlplane"
)

// An upgrade changes the projections, and its pods never become ready. If a pod of the
// earlier revision is lost meanwhile, its replacement has that revision's projections.
func TestPodsKeepTheProjectionsOfTheirRevision(t *testing.T) {
	r := newRelease(t, "revisions")
	r.upgrade(projections)
	r.complete()
	before, err := os.ReadFile(projections)
	must(t, err)

	// The new pods stay pending, because no node accepts them.
	out, err := command(t.Context(), "", controlplane.Helm, "upgrade", releaseName, chart, "--namespace", r.namespace,
		"--values", "testdata/shop.yaml", "--set-file", `projector.projections.files.shop\.yaml=`+changedProjections,
		"--set", "projector.nodeSelector.nodes=none")
	must(t, err)
	if out.stderr != "" {
		t.Log(out.stderr)
	}
	for _, pod := range r.projectors() {
		if isReady(pod) {
			kubectl(t, "--namespace", r.namespace, "delete", "pod", pod.Name)
		}
	}
	await(t, "two projectors of the revision before", func() (bool, string) {
		ready := 0
		for _, pod := range r.projectors() {
			if !isReady(pod) {
				continue
			}
			ready++
			if pod.Annotations[projectionsAnnotation] != string(before) {
				t.Fatalf("%s is ready with the projections %q", pod.Name, pod.Annotations[projectionsAnnotation])
			}
			if source := pod.Spec.Volumes[0].DownwardAPI; source == nil ||
				source.Items[0].FieldRef.FieldPath != "metadata.annotations['"+projectionsAnnotation+"']" {
				t.Fatalf("%s reads its projections from %+v", pod.Name, pod.Spec.Volumes[0])
			}
		}
		return ready == 2, fmt.Sprintf("%d are ready", ready)
	})
	helm(t, "uninstall", releaseName, "--namespace", r.namespace)
}

// A release with the checkpoint name of an earlier chart keeps its checkpoint in an upgrade
// that does not set the name. A new release gets a name of its own.
func TestUpgradeKeepsTheCheckpoint(t *testing.T) {
	r := newRelease(t, "checkpoint")
	r.upgrade(projections, "--set", "publisher.stream.name=events")
	if stream := streamOf(r.publisher()); stream != "events" {
		t.Fatalf("the publisher's stream is %q", stream)
	}
	for range 2 {
		r.upgrade(projections, "--set", "publisher.publish.connections=8")
		if stream := streamOf(r.publisher()); stream != "events" {
			t.Fatalf("an upgrade has changed the publisher's stream to %q", stream)
		}
	}
	helm(t, "uninstall", releaseName, "--namespace", r.namespace, "--wait")
	r.upgrade(projections)
	if stream, want := streamOf(r.publisher()), r.namespace+"."+releaseName+"-penstock"; stream != want {
		t.Errorf("a new release's stream is %q, want %q", stream, want)
	}
	helm(t, "uninstall", releaseName, "--namespace", r.namespace)
}

// projectors returns the release's projector pods.
func (r *release) projectors() []corev1.Pod {
	r.t.Helper()
	pods, err := r.core.Pods(r.namespace).List(r.t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=projector"})
	must(r.t, err)
	return pods.Items
}

// streamOf returns a publisher's setting of the checkpoint's name.
func streamOf(set *appsv1.StatefulSet) string {
	for _, variable := range set.Spec.Template.Spec.Containers[0].Env {
		if variable.Name == "PENSTOCK_STREAM" {
			return variable.Value
		}
	}
	return ""
}
