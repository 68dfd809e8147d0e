package images_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// container runs the program of an image like a runtime that adds nothing. The root has
// only the image's files, and the image's user cannot write to it.
type container struct {
	root       string
	entrypoint []string
	user       syscall.Credential
}

// newContainer unpacks the image for this machine's platform.
func newContainer(t *testing.T, service string) *container {
	t.Helper()
	path := archivePath(t, service)
	if os.Geteuid() != 0 {
		t.Skip("this test makes a root of its own: run it as root")
	}
	a := openArchive(t, path)
	_, index := a.images(t)
	at := slices.IndexFunc(index.Manifests, func(d descriptor) bool { return d.Platform.Architecture == runtime.GOARCH })
	if at < 0 {
		t.Skipf("there is no image for %s", runtime.GOARCH)
	}
	unpacked := a.image(t, index.Manifests[at])
	c := &container{root: filepath.Join(t.TempDir(), "root"), entrypoint: unpacked.config.Config.Entrypoint}
	c.user.Uid, c.user.Gid = numbers(t, unpacked.config.Config.User)
	for _, file := range unpacked.layer {
		c.write(t, file.Name, string(file.content), file.FileInfo().Mode())
	}
	return c
}

// numbers parses a numeric user and group.
func numbers(t *testing.T, user string) (uid, gid uint32) {
	t.Helper()
	u, g, _ := strings.Cut(user, ":")
	for text, number := range map[string]*uint32{u: &uid, g: &gid} {
		parsed, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		*number = uint32(parsed)
	}
	return uid, gid
}

// write creates a file, owned by root, in the container's root, like a mounted volume.
func (c *container) write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	path = filepath.Join(c.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

// command prepares the program with env as its whole environment.
func (c *container) command(ctx context.Context, env []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.entrypoint[0], append(c.entrypoint[1:], args...)...)
	cmd.Dir = "/"
	cmd.Env = append([]string{"PATH=/usr/bin"}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: c.root, Credential: &c.user, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// run runs the program to its end, and returns its exit code and output.
func (c *container) run(t *testing.T, env []string, args ...string) (code int, says string) {
	t.Helper()
	out, err := c.command(t.Context(), env, args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit != nil {
		return exit.ExitCode(), string(out)
	}
	return 0, string(out)
}

// start starts the program and returns the path of its log. The end of the test kills the
// program.
func (c *container) start(t *testing.T, env []string) (log string) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	ctx, kill := context.WithCancel(context.Background())
	cmd := c.command(ctx, env)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		kill()
		_ = cmd.Wait()
		if t.Failed() {
			content := read(t, out.Name())
			t.Logf("%s:\n%s", c.entrypoint[0], content[max(0, len(content)-8000):])
		}
	})
	return out.Name()
}

func contains(t *testing.T, log, text string) bool {
	t.Helper()
	return bytes.Contains(read(t, log), []byte(text))
}
