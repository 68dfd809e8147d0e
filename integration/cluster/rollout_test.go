//go:build linux

package cluster_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rolloutRate is the load in events per second.
const rolloutRate = 200

// Both services are rolled out under steady load because of a new image, configuration or
// projections, and are rolled back. Each time the read models are right, and no container
// restarts.
func TestRollouts(t *testing.T) {
	p := newPipeline(t, "rollouts")
	r := p.release()
	r.upgrade()
	for _, service := range services {
		must(t, suite.node.Tag(t.Context(), service+":0.1.0", service+":next"))
	}
	other := p.namespace + "-other"
	changed := suite.dir + "/" + other + "-projections.yaml"
	must(t, os.WriteFile(changed, append(p.workload.Projections, "\n# The same, by another text.\n"...), 0o600))

	for _, step := range []struct {
		what string
		args []string
	}{
		{"rollout by image", []string{"--set", "image.tag=next"}},
		{"rollout by configuration", []string{"--set", "image.tag=next,publisher.publish.connections=8,projector.sessions.slots=48"}},
		{"rollout by projections", []string{
			"--set", "image.tag=next,publisher.publish.connections=8,projector.sessions.slots=48",
			"--set-file", `projector.projections.files.shop\.yaml=` + changed,
		}},
	} {
		p.resume(rolloutRate)
		before := r.publisher().Status.UpdateRevision + r.projector().Annotations["deployment.kubernetes.io/revision"]
		_, took := r.upgrade(step.args...)
		if after := r.publisher().Status.UpdateRevision + r.projector().Annotations["deployment.kubernetes.io/revision"]; after == before {
			t.Errorf("the %s has replaced no pod", step.what)
		}
		r.rolled(step.what, took)
	}
	p.resume(rolloutRate)
	begun := time.Now()
	helm(t, "rollback", r.name, "1", "--namespace", r.namespace, "--wait", "--timeout", settleTimeout.String())
	if image := r.projector().Spec.Template.Spec.Containers[0].Image; !strings.HasSuffix(image, ":0.1.0") {
		t.Errorf("after the rollback the projector runs %s", image)
	}
	r.rolled("rollback", time.Since(begun))
}

// rolled checks the pipeline after a rollout.
func (r *release) rolled(what string, took time.Duration) {
	r.t.Helper()
	delay := r.recovered(time.Now())
	r.verify()
	restarts := r.restarts()
	if restarts > 0 {
		r.t.Errorf("%s: containers have restarted %d times", what, restarts)
	}
	suite.table.add(row{what: what, restarts: restarts, took: took, note: fmt.Sprintf("until helm says ready, under %d events/s; a new event then takes %s", rolloutRate, delay.Round(10*time.Millisecond))})
}

// An upgrade has projections that the projector refuses. Meanwhile an old pod restarts, one
// is added by scaling, and one is moved. All of them continue with the projections of their
// own revision.
func TestRefusedProjections(t *testing.T) {
	p := newPipeline(t, "refused")
	r := p.release()
	r.upgrade()
	p.resume(rolloutRate)
	r.awaitReady("projector")

	wrong := suite.dir + "/wrong.yaml"
	must(t, os.WriteFile(wrong, bytes.Replace(p.workload.Projections, []byte("payload.newEmail != state.email"), []byte("payload.newEmail !="), 1), 0o600))
	begun := time.Now()
	helm(t, r.args("--set-file", `projector.projections.files.shop\.yaml=`+wrong)...)
	await(t, "a check that refuses the projections", func() (bool, string) {
		for _, pod := range r.pods("projector") {
			for _, status := range pod.Status.InitContainerStatuses {
				if status.RestartCount > 0 || status.LastTerminationState.Terminated != nil {
					return true, ""
				}
			}
		}
		return false, "none has failed"
	})
	r.awaitReady("projector")

	old := r.readyPods("projector")
	signalPod(t, &old[0], sigkill)
	await(t, "the restart of an old pod", func() (bool, string) { return r.restarts() >= 1, "none" })
	r.awaitReady("projector")
	must(t, suite.client.CoreV1().Pods(p.namespace).Delete(t.Context(), old[1].Name, metav1.DeleteOptions{}))
	await(t, "the replacement of an old pod", func() (bool, string) {
		for _, pod := range r.pods("projector") {
			if pod.Name == old[1].Name {
				return false, pod.Name + " is still there"
			}
		}
		return true, ""
	})
	r.awaitReady("projector")
	kubectl(t, "-n", p.namespace, "scale", "deployment", r.projector().Name, "--replicas=4")
	await(t, "one more old pod", func() (bool, string) {
		ready := len(r.readyPods("projector"))
		return ready >= 3, fmt.Sprintf("%d are ready", ready)
	})
	delay := p.recovered(time.Now())
	suite.table.add(row{
		what: "refused projections; an old pod restarts, moves, is scaled up", restarts: r.restarts(), took: time.Since(begun),
		note: "2 old pods stay ready, 3 after scaling to 4; a new event takes " + delay.Round(10*time.Millisecond).String(),
	})
	// kubectl scale has become the owner of the number of replicas.
	r.upgrade("--force-conflicts")
	p.verify()
}
