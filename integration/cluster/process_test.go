//go:build linux

package cluster_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// signalPod sends a signal to the processes of a pod's first container from outside, like
// the kernel or an operator of the node.
func signalPod(t *testing.T, pod *corev1.Pod, signal syscall.Signal) {
	t.Helper()
	for _, pid := range processes(t, pod) {
		if err := syscall.Kill(pid, signal); err != nil {
			t.Fatalf("signal %s of pod %s: %v", signal, pod.Name, err)
		}
	}
}

// processes returns the processes of a pod's first container, which must be running.
func processes(t *testing.T, pod *corev1.Pod) []int {
	t.Helper()
	found := processesOf(t, containerID(t, pod))
	if len(found) == 0 {
		t.Fatalf("no process of pod %s is there", pod.Name)
	}
	return found
}

// processesOf returns the processes of a container.
func processesOf(t *testing.T, containerID string) []int {
	t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*/cgroup")
	must(t, err)
	var found []int
	for _, entry := range entries {
		groups, err := os.ReadFile(entry)
		if err != nil || !strings.Contains(string(groups), containerID) {
			continue // it has ended, or belongs to another container
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(entry)))
		must(t, err)
		found = append(found, pid)
	}
	return found
}

func containerID(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.State.Running != nil })
	if i < 0 {
		t.Fatalf("no container of pod %s is running", pod.Name)
	}
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[i].ContainerID, "://")
	return id
}

// memoryFiles are a cgroup's files of used memory and memory limit, for cgroup v1 and v2.
var memoryFiles = [][2]string{{"memory.usage_in_bytes", "memory.limit_in_bytes"}, {"memory.current", "memory.max"}}

// limitMemory lowers the memory limit of a container to its present usage, so that the
// kernel kills it when it needs more. It ignores a container that has ended.
func limitMemory(t *testing.T, containerID string) {
	t.Helper()
	for _, hierarchy := range []string{"/sys/fs/cgroup/memory", "/sys/fs/cgroup"} {
		folder := folderOf(hierarchy, containerID)
		if folder == "" {
			continue
		}
		for _, files := range memoryFiles {
			used, err := os.ReadFile(filepath.Join(folder, files[0]))
			if err != nil {
				continue
			}
			if err := os.WriteFile(filepath.Join(folder, files[1]), used, 0o600); err != nil {
				t.Logf("limit the memory of a container to %s bytes: %v", strings.TrimSpace(string(used)), err)
			}
			return
		}
	}
}

// folderOf returns the folder of a container's cgroup; empty if it does not exist any more.
func folderOf(hierarchy, containerID string) string {
	var folder string
	_ = filepath.WalkDir(hierarchy, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() && strings.Contains(entry.Name(), containerID) {
			folder = path
			return filepath.SkipAll
		}
		return nil
	})
	return folder
}
