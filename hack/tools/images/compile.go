package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// settings of the Go command make a binary independent of the folder and user of the
// build. GOWORK is off because a module's own go.mod defines its dependencies. GOFLAGS
// is set because the Go command reads an empty one from the user's file. The last two
// settings select the lowest level of each platform.
var settings = []string{
	"CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-trimpath", "GOOS=linux", "GOAMD64=v1", "GOARM64=v8.0",
}

// compile returns the files of an image for Linux on arch: the static binary of a program,
// the licence of Penstock, and those of everything that is linked into the binary.
func compile(ctx context.Context, p program, of release, arch string) ([]file, error) {
	dir, err := os.MkdirTemp("", "images-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)

	linker := fmt.Sprintf("-s -w -X %[1]s.release=%[2]s -X %[1]s.revision=%[3]s", p.stamped, of.version, of.revision)
	binary := filepath.Join(dir, p.name)
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags", linker, "-o", binary, p.main)
	build.Dir = p.folder
	build.Env = append(append(os.Environ(), settings...), "GOARCH="+arch)
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("compile for %s: %w", arch, err)
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	licence, err := os.ReadFile("LICENSE")
	if err != nil {
		return nil, err
	}
	collect := exec.CommandContext(ctx, "bash", "hack/notices.sh", binary)
	collect.Env = append(os.Environ(), settings...)
	collect.Stderr = os.Stderr
	notices, err := collect.Output()
	if err != nil {
		return nil, fmt.Errorf("collect the licences for %s: %w", arch, err)
	}
	return []file{
		{p.name, 0o555, content},
		{"licenses/LICENSE", 0o444, licence},
		{"licenses/third-party-notices.txt", 0o444, notices},
	}, nil
}
