//go:build linux

package node_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/penstock-cdc/penstock/integration/controlplane"
	"github.com/penstock-cdc/penstock/integration/node"
)

func TestMain(m *testing.M) {
	if _, err := node.Tools(); errors.Is(err, node.ErrNoTools) {
		os.Exit(m.Run())
	}
	code, inside, err := node.Enter()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if inside {
		code = m.Run()
	}
	os.Exit(code)
}

// A pod gets an address, starts, becomes ready, and stops when it is deleted.
func TestPodRuns(t *testing.T) {
	tools, err := node.Tools()
	if errors.Is(err, node.ErrNoTools) {
		t.Skip(err)
	}
	must(t, err)
	kube, err := controlplane.Tools()
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()

	dir := os.TempDir() // short, because sockets lie in it, and removed at the end
	control, err := controlplane.Start(ctx, controlplane.Options{Tools: kube, Dir: folder(t, dir, "control"), NodeAddress: node.Address})
	must(t, err)
	defer control.Stop()
	begun := time.Now()
	n, err := node.Start(ctx, node.Options{Tools: tools, Pause: filepath.Join(tools, "pause"), Dir: folder(t, dir, "node"), Control: control})
	must(t, err)
	defer n.Stop()
	t.Logf("the node was ready after %s", time.Since(begun).Round(time.Millisecond))

	client, err := kubernetes.NewForConfig(control.Admin())
	must(t, err)
	image := node.Image{Name: "penstock.local/sleeper:1", Files: map[string]string{"pause": filepath.Join(tools, "pause")}, Entrypoint: []string{"/pause"}}
	archive := filepath.Join(dir, "sleeper.tar")
	must(t, image.WriteArchive(archive))
	must(t, n.Import(ctx, archive))
	must(t, n.Tag(ctx, "penstock.local/sleeper:1", "penstock.local/sleeper:2"))
	pods := client.CoreV1().Pods(metav1.NamespaceDefault)
	_, err = pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "sleeper"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "sleeper", Image: "penstock.local/sleeper:2"}}},
	}, metav1.CreateOptions{})
	must(t, err)
	await(t, "a pod with an address", func() bool {
		pod, err := pods.Get(ctx, "sleeper", metav1.GetOptions{})
		must(t, err)
		return pod.Status.Phase == corev1.PodRunning && strings.HasPrefix(pod.Status.PodIP, "10.244.0.")
	})
	must(t, n.StartMetrics(ctx))
	must(t, pods.Delete(ctx, "sleeper", metav1.DeleteOptions{}))
	await(t, "the end of the pod", func() bool {
		list, err := pods.List(ctx, metav1.ListOptions{})
		must(t, err)
		return len(list.Items) == 0
	})
}

func folder(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	must(t, os.Mkdir(path, 0o700))
	return path
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	timeout := time.After(2 * time.Minute)
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for !holds() {
		select {
		case <-poll.C:
		case <-timeout:
			t.Fatalf("no %s within 2 minutes", what)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
