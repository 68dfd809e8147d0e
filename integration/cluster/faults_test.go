//go:build linux

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-cdc/penstock/integration/controlplane"
)

const sigkill = syscall.SIGKILL

// faultRate is the load in events per second.
const faultRate = 100

// A release under load gets one fault after the other. After each, new events reach their
// read models again, and all read models are right.
func TestFaults(t *testing.T) {
	p := newPipeline(t, "faults")
	r := p.release()
	r.upgrade()
	for _, fault := range []struct {
		name, what string
		// kills means that a container of the release ends and is restarted.
		kills bool
		// strike causes the fault and returns the time from which recovery counts.
		strike func(*release) (since time.Time, note string)
	}{
		{"KillPublisher", "kill -9 of the leading publisher", true, killPublisher},
		{"KillProjector", "kill -9 of a projector", true, killProjector},
		{"FreezePublisher", "SIGSTOP of the leading publisher", true, freezePublisher},
		{"FreezeProjector", "SIGSTOP of a projector", true, freezeProjector},
		{"OutOfMemory", "OOM kill of a projector", true, exhaustMemory},
		{"DrainNode", "drain of the node, refused by the PDBs for 20 s", false, drainNode},
		{"APIServerGone", "API server away for 30 s", false, loseAPIServer},
		{"BrokerGone", "broker silent for 30 s", false, silenceBroker},
		{"MongoDBKilled", "kill -9 of MongoDB", false, killMongoDB},
		{"MongoDBGone", "MongoDB silent for 30 s", false, silenceMongoDB},
		{"DiskFull", "full disk under MongoDB's data for 20 s", false, fillDisk},
	} {
		t.Run(fault.name, func(t *testing.T) {
			p.t = t
			r.awaitReady("publisher")
			r.awaitReady("projector")
			p.resume(faultRate)
			p.recovered(time.Now())
			before := r.restartCounts()
			since, note := fault.strike(r)
			took := p.recovered(since)
			if fault.kills {
				await(t, "the restart of a container", func() (bool, string) { return r.restartsSince(before) > 0, "none" })
			}
			r.awaitReady("publisher")
			r.awaitReady("projector")
			ready, restarts := time.Since(since), r.restartsSince(before)
			p.verify()
			if n := p.parked(); n > 0 {
				t.Errorf("%d aggregates are parked", n)
			}
			if note != "" {
				note += "; "
			}
			suite.table.add(row{what: fault.what, restarts: restarts, took: took, note: fmt.Sprintf("%sall pods ready after %.0f s", note, ready.Seconds())})
		})
	}
}

// killPublisher kills the leader. The restarted container has the identity of the pod, so it
// continues without waiting for the lease to expire.
func killPublisher(r *release) (time.Time, string) {
	signalPod(r.t, r.leader(), sigkill)
	return time.Now(), ""
}

// killProjector kills a projector. Its successor has the identity of the pod, so it knows that the
// killed process has ended.
func killProjector(r *release) (time.Time, string) {
	pod := &r.readyPods("projector")[0]
	signalPod(r.t, pod, sigkill)
	during := r.recovered(time.Now())
	await(r.t, "a successor that ends what the killed projector held", func() (bool, string) {
		ctx, cancel := context.WithTimeout(r.t.Context(), settleTimeout)
		defer cancel()
		log, err := command(ctx, controlplane.Kubectl, "-n", r.namespace, "logs", pod.Name)
		return strings.Contains(log, "leases of the former processes of this pod ended"), fmt.Sprintf("%v: %s", err, log)
	})
	return time.Now(), fmt.Sprintf("meanwhile a new event takes %s", during.Round(10*time.Millisecond))
}

func freezePublisher(r *release) (time.Time, string) { return freeze(r, r.leader()) }

func freezeProjector(r *release) (time.Time, string) {
	return freeze(r, &r.readyPods("projector")[0])
}

// freeze stops a pod's process. The liveness probe kills it later.
func freeze(r *release, pod *corev1.Pod) (time.Time, string) {
	signalPod(r.t, pod, syscall.SIGSTOP)
	return time.Now(), ""
}

// exhaustMemory limits a projector to less memory than it needs, until the kernel kills it.
func exhaustMemory(r *release) (time.Time, string) {
	t := r.t
	pod := &r.readyPods("projector")[0]
	id := containerID(t, pod)
	lower := time.NewTicker(200 * time.Millisecond)
	defer lower.Stop()
	timeout := time.After(settleTimeout)
	for len(processesOf(t, id)) > 0 {
		limitMemory(t, id)
		select {
		case <-lower.C:
		case <-timeout:
			t.Fatalf("pod %s was not ended for its memory", pod.Name)
		}
	}
	since := time.Now()
	await(t, "the kubelet to say why the container has ended", func() (bool, string) {
		now, err := suite.client.CoreV1().Pods(r.namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
		must(t, err)
		status := now.Status.ContainerStatuses[0]
		ended := status.State.Terminated
		if ended == nil {
			ended = status.LastTerminationState.Terminated
		}
		return ended != nil && ended.ContainerID == "containerd://"+id && ended.Reason == "OOMKilled", fmt.Sprintf("%+v", status)
	})
	return since, "OOMKilled"
}

// drainNode evicts the release's pods from the only node. The budgets allow one pod of each
// service to be evicted. Its replacement finds no node.
func drainNode(r *release) (time.Time, string) {
	t := r.t
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := command(ctx, controlplane.Kubectl, "drain", "node-0", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=20s",
		"--pod-selector=app.kubernetes.io/instance="+r.name)
	if err == nil {
		t.Errorf("the drain came to its end:\n%s", out)
	} else if !strings.Contains(err.Error(), "violate the pod's disruption budget") {
		t.Errorf("the drain failed without the budgets: %v", err)
	}
	publishers, projectors := len(r.readyPods("publisher")), len(r.readyPods("projector"))
	if publishers != 1 || projectors != 1 {
		t.Errorf("the drain leaves %d publishers and %d projectors, not one of each", publishers, projectors)
	}
	// One pod of each service keeps running.
	during := r.recovered(time.Now())
	since := time.Now()
	kubectl(t, "uncordon", "node-0")
	return since, fmt.Sprintf("one pod of each stays, a new event takes %s", during.Round(10*time.Millisecond))
}

// loseAPIServer kills the API server. The leader then cannot renew its lease and stops
// publishing. The events wait in the store.
func loseAPIServer(r *release) (time.Time, string) {
	t := r.t
	suite.control.APIServer().Kill()
	wait(t, 30*time.Second)
	since := time.Now()
	must(t, suite.control.StartAPIServer(t.Context()))
	return since, ""
}

func silenceBroker(r *release) (time.Time, string) {
	return silence(r, "sbemu", 30*time.Second)
}

func silenceMongoDB(r *release) (time.Time, string) {
	return silence(r, "mongo", 30*time.Second)
}

// silence stops a stand-in for d: its connections stay open, but it does not answer.
func silence(r *release, app string, d time.Duration) (time.Time, string) {
	t, pod := r.t, r.standIn(app)
	signalPod(t, pod, syscall.SIGSTOP)
	defer signalPod(t, pod, syscall.SIGCONT)
	wait(t, d)
	return time.Now(), ""
}

func killMongoDB(r *release) (time.Time, string) {
	signalPod(r.t, r.standIn("mongo"), sigkill)
	return time.Now(), "its data outlives it"
}

// fillDisk fills the volume of MongoDB's data.
func fillDisk(r *release) (time.Time, string) {
	t := r.t
	pod := r.standIn("mongo")
	volumes, err := filepath.Glob(filepath.Join(suite.dir, "node", "kubelet", "pods", string(pod.UID), "volumes", "kubernetes.io~empty-dir", "data"))
	must(t, err)
	if len(volumes) != 1 {
		t.Fatalf("the volume of pod %s is %v", pod.Name, volumes)
	}
	filler := filepath.Join(volumes[0], "filler")
	file, err := os.Create(filler)
	must(t, err)
	defer file.Close()
	if _, err := io.Copy(file, zeros{}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("fill the volume: %v", err)
	}
	wait(t, 20*time.Second)
	must(t, os.Remove(filler))
	after, err := suite.client.CoreV1().Pods(r.namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
	must(t, err)
	return time.Now(), fmt.Sprintf("MongoDB's stand-in restarted %d times", after.Status.ContainerStatuses[0].RestartCount-pod.Status.ContainerStatuses[0].RestartCount)
}

// zeros reads zero bytes without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// standIn returns the pod of a stand-in.
func (p *pipeline) standIn(app string) *corev1.Pod {
	p.t.Helper()
	pods, err := suite.client.CoreV1().Pods(p.namespace).List(p.t.Context(), metav1.ListOptions{LabelSelector: "app=" + app})
	must(p.t, err)
	if len(pods.Items) != 1 {
		p.t.Fatalf("%s has %d pods", app, len(pods.Items))
	}
	return &pods.Items[0]
}

// wait waits while a fault lasts.
func wait(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}
