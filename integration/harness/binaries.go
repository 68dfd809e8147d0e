package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/penstock-cdc/penstock/integration/proc"
)

// Service is one of the two services.
type Service string

// The services.
const (
	Publisher Service = "publisher"
	Projector Service = "projector"
)

// Programs runs the services and their commands.
type Programs interface {
	// Start starts a service with an admin port of its own, and does not wait until it is
	// ready. The file NAME.log in dir gets its log.
	Start(service Service, name string, env []string, dir string) (*Process, error)
	// Run runs a command. An exit status other than 0 is no error.
	Run(ctx context.Context, service Service, env, args []string) (Output, error)
}

// Binaries are the paths of the two services' executables. They are flags of kong, too.
type Binaries struct {
	Publisher string `help:"Path of the publisher's executable." default:"bin/publisher" placeholder:"FILE"`
	Projector string `help:"Path of the projector's executable." default:"bin/projector" placeholder:"FILE"`
}

// Check reports executables that do not exist.
func (b Binaries) Check() error {
	var errs []error
	for _, path := range []string{b.Publisher, b.Projector} {
		if _, err := os.Stat(path); err != nil {
			errs = append(errs, fmt.Errorf("%s is not there: run make build first", path))
		}
	}
	return errors.Join(errs...)
}

var _ Programs = Binaries{}

func (b Binaries) path(service Service) string {
	if service == Publisher {
		return b.Publisher
	}
	return b.Projector
}

// Start implements [Programs].
func (b Binaries) Start(service Service, name string, env []string, dir string) (*Process, error) {
	return Start(proc.Spec{Name: name, Binary: b.path(service), Env: env, LogDir: dir})
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
