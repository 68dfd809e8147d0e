package chart_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/integration/controlplane"
)

// output is the output of a program.
type output struct{ stdout, stderr string }

// command runs helm or kubectl with that input.
func command(ctx context.Context, input, name string, args ...string) (output, error) {
	cmd := suite.control.Command(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, &stdout, &stderr)
	}
	return output{stdout: stdout.String(), stderr: stderr.String()}, err
}

// succeeds runs helm or kubectl and returns its output. It fails the test on an error or a
// warning.
func succeeds(t *testing.T, input, name string, args ...string) string {
	t.Helper()
	out, err := command(t.Context(), input, name, args...)
	must(t, err)
	for line := range strings.Lines(out.stderr) {
		if strings.Contains(strings.ToLower(line), "warning") {
			t.Errorf("%s %s: %s", name, strings.Join(args, " "), line)
		}
	}
	return out.stdout
}

func helm(t *testing.T, args ...string) string {
	t.Helper()
	return succeeds(t, "", controlplane.Helm, args...)
}

func kubectl(t *testing.T, args ...string) {
	t.Helper()
	succeeds(t, "", controlplane.Kubectl, args...)
}

// define creates the custom resource definitions in a file. It also creates the Prometheus
// operator's PodMonitor in another group, like Azure Monitor.
func define(ctx context.Context, path string) error {
	const group = "monitoring.coreos.com"
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	definitions := []string{string(content)}
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		if strings.Contains(document, "\n  name: podmonitors."+group+"\n") {
			definitions = append(definitions, strings.ReplaceAll(document, group, "az"+group))
		}
	}
	for _, definition := range definitions {
		if _, err := command(ctx, definition, controlplane.Kubectl, "create", "-f", "-"); err != nil {
			return fmt.Errorf("define the resources of %s: %w", path, err)
		}
	}
	if _, err := command(ctx, "", controlplane.Kubectl, "wait", "--for=condition=Established", "crd", "--all", "--timeout="+settleTimeout.String()); err != nil {
		return fmt.Errorf("await the resources of %s: %w", path, err)
	}
	return nil
}

// namespace makes a namespace as docs/install.md describes it, with the Secrets that the
// values name.
func namespace(t *testing.T, name string) {
	t.Helper()
	kubectl(t, "create", "namespace", name)
	kubectl(t, "label", "namespace", name,
		"pod-security.kubernetes.io/enforce=restricted", "pod-security.kubernetes.io/warn=restricted")
	kubectl(t, "--namespace", name, "create", "secret", "generic", "mongodb", "--from-literal=uri=mongodb://mongodb/?replicaSet=rs0")
	kubectl(t, "--namespace", name, "create", "secret", "generic", "servicebus", "--from-literal=connection-string=Endpoint=sb://bus/")
}
