package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// settings of the Go command make a binary independent of the folder and user of the
// build. GOWORK is off because a service's own go.mod defines its dependencies. GOFLAGS
// is set because the Go command reads an empty one from the user's file. The last two
// settings select the lowest level of each platform.
var settings = []string{
	"CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-trimpath", "GOOS=linux", "GOAMD64=v1", "GOARM64=v8.0",
}

// compile returns the static binary of a service for Linux on arch.
func compile(ctx context.Context, s service, of release, arch string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "images-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)

	const stamp = "github.com/penstock-cdc/penstock/pkg/cli"
	linker := fmt.Sprintf("-s -w -X %[1]s.release=%[2]s -X %[1]s.revision=%[3]s", stamp, of.version, of.revision)
	binary := filepath.Join(dir, s.name)
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags", linker, "-o", binary, ".")
	build.Dir = s.name
	build.Env = append(append(os.Environ(), settings...), "GOARCH="+arch)
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("compile for %s: %w", arch, err)
	}
	return os.ReadFile(binary)
}
