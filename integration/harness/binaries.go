package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Binaries are the paths of the two services' executables.
type Binaries struct {
	Publisher, Projector string
}

// Build compiles both services from this workspace into dir.
func Build(ctx context.Context, dir string) (Binaries, error) {
	built := Binaries{
		Publisher: filepath.Join(dir, "publisher"),
		Projector: filepath.Join(dir, "projector"),
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", dir,
		"github.com/penstock-cdc/penstock/publisher", "github.com/penstock-cdc/penstock/projector")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return Binaries{}, fmt.Errorf("build the services: %w\n%s", err, out)
	}
	return built, nil
}
