package operate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/schema"
)

// initCommand writes a first file of projections for the events of the event store.
type initCommand struct {
	Sample int    `name:"sample" default:"1000" placeholder:"N" help:"How many of the oldest and how many of the newest events are read."`
	To     string `name:"to" default:"projections.yaml" placeholder:"FILE" help:"The file to write, which must not exist; its tests are written beside it, to FILE with _test before the extension. - prints the projections instead."`
}

// Validate checks the flags. kong calls it.
func (c *initCommand) Validate() error {
	problem := config.CheckSample("--sample", c.Sample)
	if ext := filepath.Ext(c.To); c.To != "-" && ext != ".yaml" && ext != ".yml" || strings.HasSuffix(strings.TrimSuffix(c.To, ext), "_test") {
		problem = errors.Join(problem, fmt.Errorf("--to is %q: use a name that ends in .yaml and not in _test.yaml, or - to print", c.To))
	}
	return problem
}

func (*initCommand) needs() config.Part { return config.PartMongoDB | config.PartFields }

// tests returns the path of the tests' file.
func (c *initCommand) tests() string {
	ext := filepath.Ext(c.To)
	return strings.TrimSuffix(c.To, ext) + "_test" + ext
}

func (c *initCommand) run(ctx context.Context, e *Environment) error {
	if c.To != "-" {
		for _, path := range []string{c.To, c.tests()} {
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s exists, and is not overwritten: name another file by --to", path)
			}
		}
	}
	inference, err := e.infer(ctx, c.Sample)
	if err != nil {
		return err
	}
	where := e.Config.MongoDB.Events()
	starter, err := inference.Starter(filepath.Base(c.To))
	if err != nil {
		return fmt.Errorf("%s, collection %s: %w", where, where.Collection, err)
	}
	starter.Projections = withModeline(schema.ProjectionsID, starter.Projections)
	starter.Tests = withModeline(schema.TestsID, starter.Tests)
	if c.To == "-" {
		return e.print("projections", string(starter.Projections))
	}
	if err := writeNew(c.To, starter.Projections); err != nil {
		return err
	}
	if err := writeNew(c.tests(), starter.Tests); err != nil {
		return err
	}
	return e.print("result", fmt.Sprintf("%s has the projections %s; their tests are in %s\nNext: projector check %s\n",
		c.To, strings.Join(starter.Names, ", "), c.tests(), c.To))
}

// writeNew writes a file that does not exist yet.
func writeNew(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // a file of the author's, for others to read
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists, and is not overwritten: name another file by --to", path)
	}
	if err != nil {
		return fmt.Errorf("write the projections: %w", err)
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// withModeline begins a YAML file with the line that names its schema to editors.
func withModeline(schema string, file []byte) []byte {
	return append([]byte("# yaml-language-server: $schema="+schema+"\n"), file...)
}
