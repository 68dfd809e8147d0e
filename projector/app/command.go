package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/audit"
	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/stores"
)

// commands are all commands of the program. A command is a struct of its flags and
// arguments that implements command; each has a file of its own. A group of commands is a
// struct whose fields are commands.
type commands struct {
	Run         runCommand          `cmd:"" default:"1" help:"Run the service. It is the default: the name of the command can be left out."`
	Check       checkCommand        `cmd:"" help:"Check the configuration and the projections, or files of projections alone. It connects to nothing unless --connect is set. Exits with status 2 if something is wrong, and with status 1 if something is most likely a mistake."`
	Test        testCommand         `cmd:"" help:"Run the tests of projections, *_test.yaml, without any server. Exits with status 1 if one fails."`
	Schema      schemaCommand       `cmd:"" help:"Print the JSON Schema of a file of projections, or of their tests, for editors."`
	Infer       inferCommand        `cmd:"" help:"Print the section events of a projections file, inferred from a sample of the event store."`
	Init        initCommand         `cmd:"" help:"Write a first file of projections, with the types of the events and with tests, from a sample of the event store. It overwrites nothing."`
	Explain     explainCommand      `cmd:"" help:"Explain a read model, event by event: which handler and which expressions ran on which values, what changed, and why an event was left out or parks the aggregate."`
	Diff        diffCommand         `cmd:"" help:"Show what changed definitions would do to real aggregates: documents that differ, aggregates that would be parked, and what a rollout starts. It writes nothing. Exits with status 1 if anything would differ."`
	Status      statusCommand       `cmd:"" help:"Show what the projectors do, on one screen: pods, projections with their generations, jobs, parked aggregates, dead letters, and the time up to which the read models are verified. Exits with status 1 if no projector runs."`
	Projections projectionsCommands `cmd:"" help:"List projections with their generations, rebuild and drop them."`
	Parked      parkedCommands      `cmd:"" help:"List, retry and discard parked aggregates."`
	Deadletters deadlettersCommands `cmd:"" help:"List, resubmit and discard the dead letters of the subscription."`
	Jobs        jobsCommands        `cmd:"" help:"List, pause, resume and cancel the jobs of rebuilds and verifications."`
	Verify      verifyCommand       `cmd:"" help:"Compare every read model with the fold of its events, while events flow. Exits with status 1 if one is wrong."`
	Pause       pauseCommand        `cmd:"" help:"Release every session and receive nothing until \"projector resume\", without stopping the processes. Jobs continue."`
	Resume      resumeCommand       `cmd:"" help:"End a pause: the projectors receive again."`
	Audit       auditCommand        `cmd:"" help:"List who changed what by a command, when and why."`
}

// command is a command of the program.
type command interface {
	// needs returns the parts of the configuration that the command uses. Only those are
	// validated.
	needs() config.Part
	// run does the work. The result goes to stdout; questions and the log go to stderr. An
	// error is printed as one line, and the process exits with status 1.
	run(ctx context.Context, e *environment) error
}

// environment is what every command gets from the program.
type environment struct {
	// path is the command with its parents, such as "parked retry".
	path   string
	config config.Config
	// projections are the configured ones, if the command needs them.
	projections []*Projection
	// inCode are the program's projections in Go.
	inCode []*Projection
	// stdin is nil if no person can answer questions there.
	stdin          io.Reader
	stdout, stderr io.Writer
	// logger writes to stderr.
	logger zerolog.Logger
}

// connect opens the stores and checks that MongoDB answers. Unlike the service it fails at
// once if a store does not answer. The caller closes the stores.
func (e *environment) connect(ctx context.Context) (*stores.Stores, error) {
	s, err := stores.Open(e.config.MongoDB, nil, e.logger)
	if err != nil {
		return nil, err
	}
	for _, client := range s.Needed {
		if err := mongox.Reach(ctx, client.Client, stores.AttemptTimeout); err != nil {
			s.Close(ctx)
			return nil, fmt.Errorf("reach MongoDB at %s (%s): %w", client.Store, client.What, err)
		}
	}
	return s, nil
}

// change asks for confirmation of what, such as "retry 12 parked aggregates", calls do, and
// records the change in the audit. do returns the numbers of its result.
func (e *environment) change(ctx context.Context, s *stores.Stores, c cli.Change, what string, do func(ctx context.Context) (map[string]int64, error)) error {
	change := audit.Change{Flags: c, Command: e.path, What: what, In: e.stdin, Out: e.stderr}
	return audit.NewStore(audit.In(s.State)).Confirmed(ctx, change, do)
}

// line is a parsed command line.
type line struct {
	config      config.Config
	command     command
	path        string
	projections []*Projection
	// variables are all variables of the program.
	variables []string
}

// program is the command line: the configuration, which every command takes, and the
// commands.
type program struct {
	config.Config
	commands
}

// ValidateFor implements [cli.Selective].
func (p *program) ValidateFor(chosen any) error {
	c, ok := chosen.(command)
	if !ok {
		return nil // a group without its command, which is reported
	}
	return p.ValidateParts(c.needs())
}

// parseLine reads the command line, and the projections if the command needs them. It
// prints help and problems.
func parseLine(args []string, environ func(string) (string, bool), stdout, stderr io.Writer, inCode []*Projection) (line, error) {
	var p program
	p.Config.Projections.InCode = len(inCode) > 0
	info := cli.Info{Name: "projector", Description: description}
	chosen, usage := cli.ParseCommand(&p, info, args, environ, stdout, stderr)
	if usage != nil && !errors.Is(usage, cli.ErrUsage) {
		return line{}, usage
	}
	c, ok := chosen.Command.(command)
	if !ok {
		return line{}, usage
	}
	if _, service := c.(*runCommand); service && p.Config.Projections.Check {
		c = &checkCommand{}
	}
	l := line{config: p.Config, command: c, path: chosen.Path, variables: chosen.Variables}
	path, needed := l.config.Projections.Path, l.command.needs()&config.PartProjections != 0
	if needed {
		var err error
		if l.projections, err = load(path, inCode); err == nil {
			err = l.config.CheckReadModels(collections(l.projections))
		}
		if err != nil {
			fmt.Fprintf(stderr, "projector: %v\n", err)
			usage = cli.ErrUsage
		}
	}
	return l, usage
}

// Main runs the command that the process's arguments name, by default the service, with the
// configuration of the environment and the given projections in Go. It returns the exit
// code when the command is done or a signal has ended it.
func Main(inCode ...*Projection) int {
	return cli.Main("projector", func(args []string, environ func(string) (string, bool), stdout, stderr io.Writer) (cli.Program, error) {
		relaxCollector(environ)
		return Parse(args, environ, stdout, stderr, nil, inCode...)
	})
}

// Parse returns the command that args (without the program's name) name, by default the
// service, with the configuration of environ and the given projections in Go. It prints help
// and problems; the error is then [cli.ErrHelp] or [cli.ErrUsage]. set changes the options
// before the command gets them; nil for none.
func Parse(args []string, environ func(string) (string, bool), stdout, stderr io.Writer, set func(*Options), inCode ...*Projection) (cli.Program, error) {
	l, err := parseLine(args, environ, stdout, stderr, inCode)
	if err != nil {
		return cli.Program{}, err
	}
	_, service := l.command.(*runCommand)
	out := stdout
	if !service {
		// Only the command's result goes to stdout.
		out = stderr
	}
	o, err := l.options(out)
	if err != nil {
		return cli.Program{}, err
	}
	if set != nil {
		set(&o)
	}
	if service {
		return cli.Program{Run: New(o).Run, Logger: o.Logger, Variables: l.variables}, nil
	}
	e := &environment{
		path: l.path, config: o.Config, projections: o.Projections, inCode: inCode, logger: o.Logger,
		stdin: cli.Terminal(os.Stdin), stdout: stdout, stderr: stderr,
	}
	return cli.Program{
		Run:     func(ctx context.Context) error { return l.command.run(ctx, e) },
		Logger:  o.Logger,
		Command: l.path,
	}, nil
}
