package chart_test

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// The projector grows with its sessions at once and shrinks only after the chart's
// ten minutes; an upgrade leaves the number of its pods to the autoscaler.
func TestAutoscaling(t *testing.T) {
	r := newRelease(t, "autoscaling")
	suite.metric.total.Store(0)
	r.upgrade(projections)
	r.scaledTo(2)

	suite.metric.total.Store(4 * 48)
	r.scaledTo(4)

	replicas := r.watchReplicas()
	r.upgrade(changedProjections)
	r.complete(3, 4)
	if seen := replicas(); !slices.Equal(seen, []int32{4}) {
		t.Errorf("an upgrade has scaled the projector: %v replicas, not 4 throughout", seen)
	}

	suite.metric.total.Store(48)
	await(t, "a recommendation to shrink that is put off", func() (bool, string) {
		autoscaler := r.autoscaler()
		return slices.ContainsFunc(autoscaler.Status.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool {
			return c.Type == autoscalingv2.AbleToScale && c.Status == corev1.ConditionTrue && c.Reason == "ScaleDownStabilized"
		}), fmt.Sprintf("%+v", autoscaler.Status)
	})
	r.scaledTo(4)

	r.upgrade(changedProjections, "--set-json",
		`projector.autoscaling.behavior.scaleDown={"stabilizationWindowSeconds":0,"policies":[{"type":"Percent","value":100,"periodSeconds":1}]}`)
	r.scaledTo(2)
	helm(t, "uninstall", releaseName, "--namespace", r.namespace)
}

// scaledTo waits until the autoscaler wants that many pods, and as many are ready.
func (r *release) scaledTo(replicas int32) {
	r.t.Helper()
	await(r.t, fmt.Sprintf("%d projectors", replicas), func() (bool, string) {
		autoscaler, deployment, ready := r.autoscaler(), r.projector(), r.readyPods("projector")
		return autoscaler.Status.DesiredReplicas == replicas && deployment.Spec.Replicas != nil && *deployment.Spec.Replicas == replicas && ready == int(replicas),
			fmt.Sprintf("%d are ready; %+v", ready, autoscaler.Status)
	})
}

// watchReplicas notes the numbers of replicas that the projector is given. What it
// returns yields each of them once.
func (r *release) watchReplicas() func() []int32 {
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
			if replicas := *deployment.Spec.Replicas; !slices.Contains(seen, replicas) {
				seen = append(seen, replicas)
			}
			if deployment.ResourceVersion == last {
				return seen
			}
		}
		r.t.Fatal("the watch of the Deployment has ended")
		return nil
	}
}
