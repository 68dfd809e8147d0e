package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/testcase"
)

// testCommand runs the tests of projections.
type testCommand struct {
	Paths []string `arg:"" name:"path" optional:"" help:"Test files, folders with *_test.yaml in them, or FOLDER/... with the folders below it. The default is ./..."`
	Run   string   `name:"run" placeholder:"REGEXP" help:"Only the cases whose names match."`
}

// Validate checks the flags. kong calls it.
func (c *testCommand) Validate() error {
	if _, err := regexp.Compile(c.Run); err != nil {
		return fmt.Errorf("--run is not a regular expression: %w", err)
	}
	return nil
}

// run runs the cases. The error is [cli.ErrFindings] if some failed, and [cli.ErrUsage] if a
// file cannot be read.
func (c *testCommand) run(ctx context.Context, e *Environment) error {
	if len(c.Paths) == 0 {
		c.Paths = []string{"./..."}
	}
	begin := time.Now()
	only, err := regexp.Compile(c.Run)
	if err != nil {
		return err
	}
	paths, err := testcase.Find(c.Paths)
	if err != nil {
		fmt.Fprintf(e.stderr, "projector test: %v\n", err)
		return cli.ErrUsage
	}
	var suites []suite
	broken := false
	for _, path := range paths {
		if s, wrong := e.readSuite(path, false); wrong {
			broken = true
		} else {
			suites = append(suites, s)
		}
	}
	ran, failed := 0, 0
	for _, s := range suites {
		n, bad, err := s.run(ctx, only, e.stdout)
		if err != nil {
			return err
		}
		ran, failed = ran+n, failed+bad
	}
	if broken && ran == 0 {
		return cli.ErrUsage
	}
	cases := cli.Count(int64(ran), "case")
	summary := cases + " passed"
	if failed > 0 {
		summary = fmt.Sprintf("%d of %s failed", failed, cases)
	}
	fmt.Fprintf(e.stdout, "%s in %.1fs\n", summary, time.Since(begin).Seconds())
	switch {
	case broken:
		return cli.ErrUsage
	case failed > 0:
		return cli.ErrFindings
	case ran == 0:
		return fmt.Errorf("no case has a name that matches %q", c.Run)
	}
	return nil
}

// suite is a test file with the projections that it tests.
type suite struct {
	*testcase.File
	projections []*projection.Projection
}

// readSuite reads a test file with its projections, and prints its mistakes. If the
// projections cannot be loaded, it prints that too, unless their mistakes were reported before.
func (e *Environment) readSuite(path string, reported bool) (s suite, wrong bool) {
	s.File = testcase.Read(path, e.Config.EventFields())
	if len(s.Problems) == 0 {
		var err error
		if s.projections, err = loadAll(s.Projections, e.inCode); err == nil {
			s.Resolve(s.projections, Reasons())
		} else if !reported {
			fmt.Fprintf(e.stderr, "%s: %v\n", path, err)
			wrong = true
		}
	}
	for _, p := range s.Problems {
		fmt.Fprintln(e.stderr, p)
	}
	return s, wrong || len(s.Problems) > 0
}

// loadAll returns the projections of files and folders, checked together, and those in
// code.
func loadAll(paths []string, inCode []*projection.Projection) ([]*projection.Projection, error) {
	declared, err := projection.Load(paths...)
	if err != nil && (len(inCode) == 0 || !errors.Is(err, projection.ErrNoFile)) {
		return nil, err
	}
	all := append(declared, inCode...)
	return all, projection.CheckSet(all)
}

// run runs the cases of a file, prints the failures, and returns how many cases ran and failed.
func (s suite) run(ctx context.Context, only *regexp.Regexp, stdout io.Writer) (ran, failed int, err error) {
	for _, tested := range s.Cases {
		if !only.MatchString(tested.Name) {
			continue
		}
		result, err := tested.Run(ctx, s.projections)
		if err != nil {
			return 0, 0, err
		}
		ran++
		if len(result.Failures) > 0 {
			failed++
			if err := result.Print(stdout); err != nil {
				return 0, 0, fmt.Errorf("print the results: %w", err)
			}
		}
	}
	if failed == 0 && ran > 0 {
		fmt.Fprintf(stdout, "ok   %s: %s\n", s.Path, cli.Count(int64(ran), "case"))
	}
	return ran, failed, nil
}
