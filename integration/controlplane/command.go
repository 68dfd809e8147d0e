package controlplane

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Command prepares [Helm] or [Kubectl] with those arguments, as the administrator. It
// finds no configuration, cache or plugin of the user's.
func (c *ControlPlane) Command(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	kubeconfig, err := c.kubeconfigFile("admin", c.admin)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", name, err)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(c.opts.Tools, name), args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.opts.Dir, "KUBECONFIG=" + kubeconfig}
	return cmd, nil
}
