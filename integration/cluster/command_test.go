//go:build linux

package cluster_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/integration/controlplane"
)

// command runs helm or kubectl and returns its output.
func command(ctx context.Context, name string, args ...string) (string, error) {
	cmd := suite.control.Command(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, &stdout, &stderr)
	}
	return stdout.String(), err
}

func helm(t *testing.T, args ...string) string {
	t.Helper()
	out, err := command(t.Context(), controlplane.Helm, args...)
	must(t, err)
	return out
}

func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := command(t.Context(), controlplane.Kubectl, args...)
	must(t, err)
	return out
}
