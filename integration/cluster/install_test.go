//go:build linux

package cluster_test

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/controlplane"
)

// The chart is installed by the README's commands, with the checks before the start, into a
// namespace that enforces restricted pods. The checks find nothing wrong, the chart's test
// passes, and the commands in its notes work.
func TestInstall(t *testing.T) {
	p := newPipeline(t, "install")
	r := p.release("publisher.preflight.enabled=true", "projector.preflight.enabled=true")
	p.resume(100)
	notes, took := r.upgrade()
	recovered := p.recovered(time.Now())
	suite.table.add(row{what: "install into a restricted namespace", restarts: r.restarts(), took: took, note: "until helm says ready; a new event takes " + recovered.Round(10*time.Millisecond).String()})
	for _, pod := range r.pods("") {
		checks := kubectl(t, "-n", p.namespace, "logs", pod.Name, "-c", "preflight")
		if !strings.Contains(checks, "ok       event store") || strings.Contains("\n"+checks, "\nfailed") {
			t.Errorf("the checks of %s print\n%s", pod.Name, checks)
		}
	}

	begun := time.Now()
	out := helm(t, "test", r.name, "--namespace", p.namespace, "--logs=false")
	if !strings.Contains(out, "Succeeded") {
		t.Errorf("helm test prints\n%s", out)
	}
	suite.table.add(row{what: "helm test", restarts: r.restarts(), took: time.Since(begun)})
	for _, line := range notesCommands(t, notes) {
		kubectl(t, strings.Fields(line)...)
	}
	r.portForward(notes)
	p.verify()

	helm(t, "uninstall", r.name, "--namespace", p.namespace, "--wait")
	// Helm does not wait for the pods, which still drain.
	await(t, "an empty namespace after the uninstall", func() (bool, string) {
		left := kubectl(t, "-n", p.namespace, "get", "all,lease,configmap,serviceaccount,role,rolebinding,pdb", "-l", "app.kubernetes.io/instance="+r.name, "-o", "name")
		return left == "", "left are " + left
	})
}

// notesCommands returns the arguments of the kubectl commands in the notes that have a line
// of their own.
func notesCommands(t *testing.T, notes string) []string {
	t.Helper()
	var commands []string
	for _, match := range regexp.MustCompile(`(?m)^  kubectl (.+)$`).FindAllStringSubmatch(notes, -1) {
		commands = append(commands, match[1])
	}
	if len(commands) < 4 {
		t.Errorf("the notes have %d commands:\n%s", len(commands), notes)
	}
	return commands
}

// portForward runs the notes' command that forwards a port to the metrics, and reads the
// metrics that the notes name.
func (r *release) portForward(notes string) {
	r.t.Helper()
	match := regexp.MustCompile(`\(kubectl (-n \S+ port-forward \S+ 8080:admin), then /metrics\)`).FindStringSubmatch(notes)
	if match == nil {
		r.t.Fatalf("the notes do not say how to read the metrics:\n%s", notes)
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// The end of ctx stops it, which is an error that does not matter.
		_, _ = command(ctx, controlplane.Kubectl, strings.Fields(match[1])...)
	}()
	defer func() {
		cancel()
		<-ended
	}()
	await(r.t, "metrics through a forwarded port", func() (bool, string) {
		response, err := http.Get("http://127.0.0.1:8080/metrics")
		if err != nil {
			return false, err.Error()
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		return err == nil && strings.Contains(string(text), "penstock_publisher_leader "), string(text)
	})
}
