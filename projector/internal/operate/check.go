package operate

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/preflight"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
	"github.com/penstock-cdc/penstock/projector/internal/testcase"
)

// checkCommand checks the configuration and the projections, or files of projections alone.
// Parsing the command line has already checked the configuration.
type checkCommand struct {
	preflight.Flags
	Connect bool `name:"connect" help:"Check also, by asking the servers, what the projector needs: rights, the event store, the subscription. Each line is ok, warning or failed, with its remedy. Changes nothing. Exits with status 1 if a line has failed."`
	// Without is for the init container of the chart, which has no secret.
	Without bool     `name:"without-connections" help:"Do not check the settings of the connections to MongoDB and Service Bus, which need secrets."`
	Paths   []string `arg:"" name:"path" optional:"" help:"Files of projections, and folders of them, to check together instead of the configuration: they need no settings. Test files, *_test.yaml, are checked too."`
}

func (c *checkCommand) needs() config.Part {
	if len(c.Paths) > 0 {
		return 0
	}
	if c.Without {
		return config.PartAll &^ (config.PartMongoDB | config.PartServiceBus)
	}
	return config.PartAll
}

// Validate checks the flags. kong calls it.
func (c *checkCommand) Validate() error {
	if c.Connect && len(c.Paths) > 0 {
		return errors.New("--connect and PATHS are set: check files, or the configuration with its servers")
	}
	if c.Without && (c.Connect || len(c.Paths) > 0) {
		return errors.New("--without-connections is set beside --connect or PATHS: use one of them")
	}
	if !c.Connect && (c.Init || c.JSON()) {
		return errors.New("--init or --output is set without --connect: set that, too")
	}
	return nil
}

func (c *checkCommand) run(ctx context.Context, e *Environment) error {
	if c.Connect {
		return c.connect(ctx, e)
	}
	if len(c.Paths) == 0 {
		return c.report(e, e.Projections)
	}
	projections, err := c.checkFiles(e)
	if err != nil {
		return err
	}
	return c.report(e, projections)
}

func (c *checkCommand) report(e *Environment, projections []*projection.Projection) error {
	text := "the configuration is right, and so are its projections: %d\n"
	if c.Without {
		text = "the configuration is right except for the connections, which were not checked, and so are its projections: %d\n"
	}
	if len(c.Paths) > 0 {
		text = "the projections are right: %d\n"
	}
	return e.print("result", fmt.Sprintf(text, len(projections)))
}

// checkFiles checks files of projections and of tests. It prints errors on stderr and
// returns [cli.ErrUsage]. It prints likely mistakes that are no errors on stdout and
// returns [cli.ErrFindings].
func (c *checkCommand) checkFiles(e *Environment) ([]*projection.Projection, error) {
	var declared, tests []string
	for _, path := range c.Paths {
		if testcase.IsTest(path) {
			tests = append(tests, path)
			continue
		}
		declared = append(declared, path)
		// Test files in a folder are optional.
		if found, err := testcase.Find([]string{path}); err == nil {
			for _, file := range found {
				if testcase.IsTest(file) {
					tests = append(tests, file)
				}
			}
		}
	}
	var projections []*projection.Projection
	var advice []projection.Problem
	wrong := false
	if len(declared) > 0 {
		var err error
		projections, advice, err = projection.Check(declared...)
		if errors.Is(err, projection.ErrNoFile) && len(e.inCode) > 0 {
			err = nil // the folder has tests of the projections in Go
		}
		if err == nil {
			err = errors.Join(projection.CheckSet(projections), e.Config.CheckReadModels(Collections(projections)))
		}
		if err != nil {
			fmt.Fprintln(e.stderr, err)
			wrong = true
		}
	}
	for _, path := range tests {
		if _, broken := e.readSuite(path, wrong); broken {
			wrong = true
		}
	}
	for _, a := range advice {
		fmt.Fprintln(e.stdout, a)
	}
	switch {
	case wrong:
		return nil, cli.ErrUsage
	case len(advice) > 0:
		return nil, cli.ErrFindings
	}
	return projections, nil
}
