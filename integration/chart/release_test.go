package chart_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	appsv1client "k8s.io/client-go/kubernetes/typed/apps/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// The objects of a release with the name shop.
const (
	releaseName = "shop"
	publisher   = releaseName + "-penstock-publisher"
	projector   = releaseName + "-penstock-projector"
)

// The numbers of pods in testdata/shop.yaml.
const publishers, minProjectors = 3, 2

// Projections of a release, before and after a change.
const (
	projections        = "testdata/users.yaml"
	changedProjections = "testdata/users-renamed.yaml"
)

// projectionsAnnotation holds the projections of docs/install.md in each pod.
const projectionsAnnotation = "projections.penstock.dev/shop.yaml"

// release is a release of the chart in a namespace of its own.
type release struct {
	t         *testing.T
	namespace string
	apps      appsv1client.AppsV1Interface
	core      corev1client.CoreV1Interface
}

func newRelease(t *testing.T, name string) *release {
	t.Helper()
	start(t)
	namespace(t, name)
	r := &release{t: t, namespace: name}
	var err error
	r.apps, err = appsv1client.NewForConfig(suite.control.Admin())
	must(t, err)
	r.core, err = corev1client.NewForConfig(suite.control.Admin())
	must(t, err)
	return r
}

// upgradeArgs returns the arguments of docs/install.md, which also install a release.
func (r *release) upgradeArgs(projections string, more ...string) []string {
	return append([]string{
		"upgrade", "--install", releaseName, chart, "--namespace", r.namespace,
		"--values", "testdata/shop.yaml", "--set-file", `projector.projections.files.shop\.yaml=` + projections,
		"--wait", "--rollback-on-failure", "--timeout", settleTimeout.String(),
	}, more...)
}

func (r *release) upgrade(projections string, more ...string) string {
	r.t.Helper()
	return helm(r.t, r.upgradeArgs(projections, more...)...)
}

func (r *release) publisher() *appsv1.StatefulSet {
	r.t.Helper()
	set, err := r.apps.StatefulSets(r.namespace).Get(r.t.Context(), publisher, metav1.GetOptions{})
	must(r.t, err)
	return set
}

func (r *release) projector() *appsv1.Deployment {
	r.t.Helper()
	deployment, err := r.apps.Deployments(r.namespace).Get(r.t.Context(), projector, metav1.GetOptions{})
	must(r.t, err)
	return deployment
}

// complete waits until both rollouts have ended, with the autoscaler's least number of
// projectors.
func (r *release) complete() {
	r.t.Helper()
	await(r.t, "the publisher's rollout", func() (bool, string) {
		set := r.publisher()
		status := set.Status
		return status.ObservedGeneration == set.Generation && status.Replicas == publishers && status.ReadyReplicas == publishers &&
			status.UpdatedReplicas == publishers && status.CurrentRevision == status.UpdateRevision, fmt.Sprintf("%+v", status)
	})
	await(r.t, "the projector's rollout", func() (bool, string) {
		deployment := r.projector()
		status := deployment.Status
		return status.ObservedGeneration == deployment.Generation && status.Replicas == minProjectors &&
			status.AvailableReplicas == minProjectors && status.UpdatedReplicas == minProjectors, fmt.Sprintf("%+v", status)
	})
}

// history returns the release's revisions with their states.
func (r *release) history() []revision {
	r.t.Helper()
	var revisions []revision
	must(r.t, json.Unmarshal([]byte(helm(r.t, "history", releaseName, "--namespace", r.namespace, "--output", "json")), &revisions))
	return revisions
}

type revision struct {
	Revision int    `json:"revision"`
	Status   string `json:"status"`
}

// watchPods watches the publisher's pods. deleted waits until all that were there have gone,
// and returns their names in the order in which they went. Their successors have the same
// names; one of them goes too if kwok repeats a deletion, which names no UID.
func (r *release) watchPods() (deleted func() []string) {
	r.t.Helper()
	options := metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=publisher"}
	pods, err := r.core.Pods(r.namespace).List(r.t.Context(), options)
	must(r.t, err)
	left := map[types.UID]bool{}
	for i := range pods.Items {
		left[pods.Items[i].UID] = true
	}
	options.ResourceVersion = pods.ResourceVersion
	events, err := r.core.Pods(r.namespace).Watch(r.t.Context(), options)
	must(r.t, err)
	return func() []string {
		defer events.Stop()
		var names []string
		for len(left) > 0 {
			pod := nextDeleted(r.t, events)
			if left[pod.UID] {
				delete(left, pod.UID)
				names = append(names, pod.Name)
			}
		}
		return names
	}
}

// nextDeleted returns the next deleted pod.
func nextDeleted(t *testing.T, events watch.Interface) *corev1.Pod {
	t.Helper()
	var deleted *corev1.Pod
	await(t, "the end of a pod", func() (bool, string) {
		for {
			select {
			case event, open := <-events.ResultChan():
				if !open {
					t.Fatal("the watch of the pods has ended")
				}
				if pod, ok := event.Object.(*corev1.Pod); ok && event.Type == watch.Deleted {
					deleted = pod
					return true, ""
				}
			default:
				return false, ""
			}
		}
	})
	return deleted
}

// watchProjector records a number of the projector's Deployment. values returns each
// distinct value once.
func (r *release) watchProjector(number func(*appsv1.Deployment) int32) (values func() []int32) {
	r.t.Helper()
	events, err := r.apps.Deployments(r.namespace).Watch(r.t.Context(), metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", projector).String(),
	})
	must(r.t, err)
	return func() []int32 {
		defer events.Stop()
		last := r.projector().ResourceVersion
		var seen []int32
		for event := range events.ResultChan() {
			deployment, ok := event.Object.(*appsv1.Deployment)
			if !ok {
				r.t.Fatalf("the watch of the Deployment has ended with %v", event.Object)
			}
			if value := number(deployment); !slices.Contains(seen, value) {
				seen = append(seen, value)
			}
			if deployment.ResourceVersion == last {
				return seen
			}
		}
		r.t.Fatal("the watch of the Deployment has ended")
		return nil
	}
}
