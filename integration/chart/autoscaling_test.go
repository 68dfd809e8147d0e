package chart_test

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

// The projector grows with its sessions immediately and shrinks only after the chart's ten
// minutes. An upgrade leaves the number of its pods to the autoscaler.
func TestAutoscaling(t *testing.T) {
	r := newRelease(t, "autoscaling")
	r.upgrade(projections)
	r.scaledTo(2)

	suite.metric.total.Store(4 * 48)
	r.scaledTo(4)

	replicas := r.watchProjector(func(d *appsv1.Deployment) int32 { return *d.Spec.Replicas })
	r.upgrade(changedProjections)
	r.complete(4)
	if seen := replicas(); !slices.Equal(seen, []int32{4}) {
		t.Errorf("an upgrade has scaled the projector: %v replicas, not 4 throughout", seen)
	}

	suite.metric.total.Store(48)
	await(t, "a recommendation to shrink that is put off", func() (bool, string) {
		status := r.autoscaler().Status
		putOff := slices.ContainsFunc(status.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool {
			return c.Type == autoscalingv2.AbleToScale && c.Status == corev1.ConditionTrue && c.Reason == "ScaleDownStabilized"
		})
		falls := slices.ContainsFunc(status.CurrentMetrics, func(m autoscalingv2.MetricStatus) bool {
			return m.Pods != nil && m.Pods.Current.AverageValue.Value() == 48/4
		})
		return putOff && falls, fmt.Sprintf("%+v", status)
	})
	r.scaledTo(4)

	r.upgrade(changedProjections, "--set-json",
		`projector.autoscaling.behavior.scaleDown={"stabilizationWindowSeconds":0,"policies":[{"type":"Percent","value":100,"periodSeconds":1}]}`)
	r.scaledTo(2)

	// Switch autoscaling off, which takes over the fields of the autoscaler, and on again.
	// The autoscaler may change the number once more before it is deleted; the second time
	// there is no autoscaler.
	for range 2 {
		r.upgrade(changedProjections, "--set", "projector.autoscaling.mode=none", "--set", "projector.replicas=3", "--force-conflicts")
	}
	r.complete(3)
	r.upgrade(changedProjections)
	r.scaledTo(2)
	helm(t, "uninstall", releaseName, "--namespace", r.namespace)
}

// scaledTo waits until the autoscaler wants that many pods and they are ready.
func (r *release) scaledTo(replicas int32) {
	r.t.Helper()
	await(r.t, fmt.Sprintf("%d projectors", replicas), func() (bool, string) {
		autoscaler, deployment, ready := r.autoscaler(), r.projector(), r.readyPods("projector")
		return autoscaler.Status.DesiredReplicas == replicas && deployment.Spec.Replicas != nil && *deployment.Spec.Replicas == replicas && ready == int(replicas),
			fmt.Sprintf("%d are ready; %+v", ready, autoscaler.Status)
	})
}
