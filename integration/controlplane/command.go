package controlplane

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
)

// Command prepares [Helm] or [Kubectl] with those arguments, as the administrator. It does
// not use the user's configuration, cache or plugins. It is safe for concurrent use.
func (c *ControlPlane) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.opts.Tools, name), args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.opts.Dir, "KUBECONFIG=" + c.kubeconfig}
	return cmd
}
