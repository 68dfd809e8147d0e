//go:build linux

package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// autoscalingRate makes one projector busier than the autoscaler's target.
const autoscalingRate = 300

// metrics-server reports the CPU of real pods, and the HorizontalPodAutoscaler follows it:
// up under load, down to one pod without load, and monotonically in between.
func TestAutoscaling(t *testing.T) {
	p := newPipeline(t, "autoscaling")
	must(t, suite.node.StartMetrics(t.Context()))
	r := p.release(
		"projector.autoscaling.mode=hpa,projector.autoscaling.minReplicas=1,projector.autoscaling.maxReplicas=4",
		// Two projectors without load need less than one's share, on a slow machine too.
		"projector.resources.requests.cpu=50m,projector.resources.requests.memory=64Mi",
		// The chart's default of ten minutes is too long for a test.
		"projector.autoscaling.behavior.scaleDown.stabilizationWindowSeconds=30",
		"projector.autoscaling.behavior.scaleDown.policies[0].type=Pods,projector.autoscaling.behavior.scaleDown.policies[0].value=1,projector.autoscaling.behavior.scaleDown.policies[0].periodSeconds=10",
	)
	r.upgrade()
	var seen []int32
	note := func() int32 {
		count := *r.projector().Spec.Replicas
		if len(seen) == 0 || seen[len(seen)-1] != count {
			seen = append(seen, count)
		}
		return count
	}
	await(t, "one projector without load", func() (bool, string) { return note() == 1, fmt.Sprint(seen) })
	seen = []int32{1}

	p.resume(autoscalingRate)
	begun := time.Now()
	await(t, "more projectors under load", func() (bool, string) { return note() > 1, fmt.Sprint(seen) })
	up := time.Since(begun)
	// The load lasts longer than the window in which the autoscaler may reverse its
	// decision.
	hold := time.After(40 * time.Second)
	poll := time.NewTicker(500 * time.Millisecond)
	defer poll.Stop()
	for held := false; !held; {
		select {
		case <-hold:
			held = true
		case <-poll.C:
			note()
		}
	}
	highest := slices.Max(seen)
	p.pause()
	begun = time.Now()
	await(t, "one projector after the load", func() (bool, string) { return note() == 1, fmt.Sprint(seen) })
	down := time.Since(begun)
	p.verify()
	top := slices.Index(seen, highest)
	rise, fall := seen[:top+1], slices.Clone(seen[top:])
	slices.Reverse(fall)
	if !slices.IsSorted(rise) || !slices.IsSorted(fall) {
		t.Errorf("the number of projectors went %v: up and down more than once", seen)
	}
	suite.table.add(row{
		what: "HorizontalPodAutoscaler by CPU, from metrics-server", restarts: r.restarts(), took: up,
		note: fmt.Sprintf("until it scales up; pods %s; back to 1 after %.0f s without load", strings.Trim(fmt.Sprint(seen), "[]"), down.Seconds()),
	})
}
