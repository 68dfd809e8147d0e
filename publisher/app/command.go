package app

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/penstock-cdc/penstock/pkg/audit"
	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/publisher/internal/config"
)

// commands are all commands of the program. A command is a struct of its flags and
// arguments that implements runner or, if it always uses the stores, storesRunner. A group of
// commands is a struct whose fields are commands.
type commands struct {
	Run        runCommand         `cmd:"" default:"1" help:"Run the service. It is the default: the name of the command can be left out."`
	Check      checkCommand       `cmd:"" help:"Check what the publisher needs: rights, indexes, the topic's properties, the oplog, a sample of events, clocks. It prints a line for each: ok, warning or failed, with its remedy. It changes nothing. Exits with status 1 if a line has failed."`
	Status     statusCommand      `cmd:"" help:"Show who leads, how far the checkpoint and the oplog reach, and what is quarantined. Exits with status 1 if nobody leads."`
	Checkpoint checkpointCommands `cmd:"" help:"Set the checkpoint to another place, or give it to this pipeline. The command status shows it."`
	Quarantine quarantineCommands `cmd:"" help:"List and discard events that could not be published. The command republish sends them again."`
	Republish  republishCommand   `cmd:"" help:"Send stored events through the topic again: corrected events of the quarantine, or events that subscribers have lost."`
	Audit      auditCommand       `cmd:"" help:"List who changed what by a command, when and why."`
}

// validator is a command that uses more settings than those of the stores. validate reports
// every problem of the settings that the command uses, and accepts wrong values of the others.
type validator interface {
	validate(c *config.Config) error
}

type runner interface {
	run(ctx context.Context, e *environment) error
}

type storesRunner interface {
	runOn(ctx context.Context, e *environment, s *stores) error
}

// environment is what every command gets from the program.
type environment struct {
	// path is the command with its parents, such as "quarantine list".
	path    string
	options Options
	// stdin is nil if no person can answer questions there.
	stdin          io.Reader
	stdout, stderr io.Writer
}

// run runs a command. If that always uses the stores, run opens them before, and checks that
// MongoDB answers. Unlike the service it fails at once if a store does not answer. The error is
// printed as one line, and the process exits with status 1.
func (e *environment) run(ctx context.Context, c any) error {
	using, uses := c.(storesRunner)
	if !uses {
		return c.(runner).run(ctx, e)
	}
	p := New(e.options)
	s, err := p.open()
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	for _, client := range s.Opened {
		if err := mongox.Reach(ctx, client.Client); err != nil {
			return fmt.Errorf("reach MongoDB at %s (%s): %w", client.Store, client.What, err)
		}
	}
	return using.runOn(ctx, e, s)
}

// change asks for confirmation of what, such as "discard 3 events", calls do, and records
// the change in the audit. do returns the numbers of its result.
func (e *environment) change(ctx context.Context, s *stores, flags cli.Change, what string, do func(ctx context.Context) (map[string]int64, error)) error {
	change := audit.Change{Flags: flags, Command: e.path, What: what, In: e.stdin, Out: e.stderr}
	return audit.NewStore(audit.In(s.state)).Confirmed(ctx, change, do)
}

const description = `Publishes the events of a MongoDB event store to a topic of Azure Service Bus: every event at least once, the events of an aggregate in order. Run as many as you like: one leads, the others stand by.`

// program is the command line: the configuration, which every command takes, and the
// commands.
type program struct {
	config.Config
	commands
}

// CheckFor returns the problems of the settings that a command uses. [cli.Parse] calls it.
func (p *program) CheckFor(chosen any) error {
	switch c := chosen.(type) {
	case validator:
		return c.validate(&p.Config)
	case storesRunner:
		return p.MongoDB.Check()
	}
	return nil // a group without its command, which is reported
}

// Main runs the command that the process's arguments name, by default the service, with the
// configuration of the environment. It returns the exit code when the command is done or a
// signal has ended it.
func Main() int {
	return cli.Main("publisher", func(args []string, environ func(string) (string, bool), stdout, stderr io.Writer) (cli.Program, error) {
		tightenCollector(environ)
		program, err := Parse(args, environ, stdout, stderr, nil)
		if err == nil {
			obs.BridgeKlog(program.Logger)
		}
		return program, err
	})
}

// Parse returns the command that args (without the program's name) name, by default the
// service, with the configuration of environ. It prints help and problems; the error is then
// [cli.ErrHelp] or [cli.ErrUsage]. set changes the options before the command gets them; nil
// for none.
func Parse(args []string, environ func(string) (string, bool), stdout, stderr io.Writer, set func(*Options)) (cli.Program, error) {
	var line program
	chosen, err := cli.Parse(&line, cli.Info{Name: "publisher", Description: description}, args, environ, stdout, stderr)
	if err != nil {
		return cli.Program{}, err
	}
	program, out := cli.Program{Variables: chosen.Variables, Result: cli.NewResult(stdout)}, stdout
	if _, service := chosen.Command.(*runCommand); !service {
		// Only the command's result goes to stdout.
		program.Command, out = chosen.Path, stderr
	}
	logger := obs.NewLogger(out, line.Process.Log)
	o := Options{Config: line.Config, Logger: logger}
	if set != nil {
		set(&o)
	}
	program.Logger = o.Logger
	e := &environment{path: chosen.Path, options: o, stdin: cli.Terminal(os.Stdin), stdout: program.Result, stderr: stderr}
	program.Run = func(ctx context.Context) error { return e.run(ctx, chosen.Command) }
	return program, nil
}
