package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/rs/zerolog"

	"github.com/penstock-cdc/penstock/pkg/cli"
	"github.com/penstock-cdc/penstock/pkg/obs"
	"github.com/penstock-cdc/penstock/projector/internal/config"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// commands are all commands of the program. A command is a struct of its flags and arguments
// that implements runner or, if it always uses the databases, storedRunner; each has a file of
// its own. A group of commands is a struct whose fields are commands. The result goes to stdout;
// questions and the log go to stderr. An error is printed as one line, and the process exits with
// status 1.
type commands struct {
	Run         runCommand          `cmd:"" default:"1" help:"Run the service. It is the default: the name of the command can be left out."`
	Check       checkCommand        `cmd:"" help:"Check the configuration and the projections, or files of projections alone. It connects to nothing unless --connect is set. Exits with status 2 if something is wrong, and, for files, with status 1 if something is most likely a mistake."`
	Test        testCommand         `cmd:"" help:"Run the tests of projections, *_test.yaml, without any server. Exits with status 1 if one fails."`
	Schema      schemaCommand       `cmd:"" help:"Print the JSON Schema of a file of projections, or of their tests, for editors."`
	Infer       inferCommand        `cmd:"" help:"Print the section events of a projections file, inferred from a sample of the event store."`
	Init        initCommand         `cmd:"" help:"Write a first file of projections, with the types of the events and with tests, from a sample of the event store. It overwrites nothing."`
	Explain     explainCommand      `cmd:"" help:"Explain a read model, event by event: which handler and which expressions ran on which values, what changed, and why an event was left out or parks the aggregate."`
	Diff        diffCommand         `cmd:"" help:"Show what changed definitions would do to real aggregates: documents that differ, aggregates that would be parked, and what a rollout starts. It writes nothing. Exits with status 1 if anything would differ."`
	Status      statusCommand       `cmd:"" help:"Show what the projectors do, on one screen: pods, projections with their generations, jobs, parked aggregates, dead letters, and the time up to which a sweep has found the read models complete. Exits with status 1 if no projector runs."`
	Projections projectionsCommands `cmd:"" help:"List projections with their generations, rebuild and drop them."`
	Parked      parkedCommands      `cmd:"" help:"List, retry and discard parked aggregates."`
	Deadletters deadlettersCommands `cmd:"" help:"List and discard the dead letters of the subscription."`
	Owners      ownersCommands      `cmd:"" help:"Release a name that a pipeline owns."`
	Jobs        jobsCommands        `cmd:"" help:"List and cancel the jobs of rebuilds and verifications."`
	Verify      verifyCommand       `cmd:"" help:"Compare every read model with the fold of its events, while events flow. Exits with status 1 if one is wrong."`
	Erase       eraseCommand        `cmd:"" help:"Erase an aggregate, such as a person, from every copy that Penstock keeps, and prove it. Exits with status 1 if something is left."`
	Audit       auditCommand        `cmd:"" help:"List who changed what by a command, when and why."`
}

// needs returns the parts of the configuration that a command uses: those that its method needs
// returns, or else the databases of a storedRunner. Only those are validated.
func needs(command any) config.Part {
	if c, ok := command.(interface{ needs() config.Part }); ok {
		return c.needs()
	}
	if _, ok := command.(storedRunner); ok {
		return config.PartMongoDB
	}
	return 0
}

type runner interface {
	run(ctx context.Context, e *Environment) error
}

type storedRunner interface {
	runOn(ctx context.Context, e *Environment, s *stored) error
}

// Environment is a command with all that it runs on. Make it with [Parse].
type Environment struct {
	// Path is the command with its parents, such as "parked retry".
	Path   string
	Config config.Config
	// Projections are the configured ones, if the command needs them.
	Projections []*projection.Projection
	// Logger writes to stderr, and that of the service to stdout.
	Logger zerolog.Logger
	// Variables are all variables of the program.
	Variables []string
	// Serve runs the service. The caller of Parse sets it.
	Serve func(ctx context.Context) error
	// Result is the stdout of the command.
	Result *cli.Result

	command any
	// inCode are the program's projections in Go.
	inCode []*projection.Projection
	// stdin is nil if no person can answer questions there.
	stdin          io.Reader
	stdout, stderr io.Writer
}

// Run runs the command.
func (e *Environment) Run(ctx context.Context) error {
	c, uses := e.command.(storedRunner)
	if !uses {
		return e.command.(runner).run(ctx, e)
	}
	s, err := e.connect(ctx)
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	return c.runOn(ctx, e, s)
}

// print prints a text on stdout. what names it in the error.
func (e *Environment) print(what, text string) error {
	if _, err := io.WriteString(e.stdout, text); err != nil {
		return fmt.Errorf("print the %s: %w", what, err)
	}
	return nil
}

// Service reports whether the command is the service.
func (e *Environment) Service() bool {
	_, service := e.command.(*runCommand)
	return service
}

// program is the command line: the configuration, which every command takes, and the
// commands.
type program struct {
	config.Config
	commands
}

// CheckFor returns the problems of the settings that a command uses. [cli.Parse] calls it.
func (p *program) CheckFor(chosen any) error {
	return p.ValidateParts(needs(chosen))
}

const description = `Keeps read models in MongoDB up to date with the events of a topic of Azure Service Bus: each event takes effect once, those of an aggregate in order. Run as many as the load needs: they share the sessions of one subscription.`

// Parse reads the command line, and the projections if the command needs them. inCode are
// the program's projections in Go. It prints help and problems; the error is then
// [cli.ErrHelp] or [cli.ErrUsage].
func Parse(args []string, environ func(string) (string, bool), stdout, stderr io.Writer, inCode []*projection.Projection) (*Environment, error) {
	var p program
	p.Config.Projections.InCode = len(inCode) > 0
	info := cli.Info{Name: "projector", Description: description}
	chosen, usage := cli.Parse(&p, info, args, environ, stdout, stderr)
	if usage != nil && !errors.Is(usage, cli.ErrUsage) {
		return nil, usage
	}
	if chosen.Command == nil {
		return nil, usage
	}
	result := cli.NewResult(stdout)
	e := &Environment{
		Path: chosen.Path, Config: p.Config, Variables: chosen.Variables, command: chosen.Command, inCode: inCode,
		Result: result, stdin: cli.Terminal(os.Stdin), stdout: result, stderr: stderr,
	}
	if needs(chosen.Command)&config.PartProjections != 0 {
		var err error
		if e.Projections, err = load(e.Config.Projections.Path, inCode); err == nil {
			err = e.Config.CheckReadModels(Collections(e.Projections))
		}
		if err != nil {
			usage = e.refuseProjections(err)
		}
	}
	if usage != nil {
		return nil, usage
	}
	out := stderr // only the command's result goes to stdout
	if e.Service() {
		out = stdout
	}
	e.Logger = obs.NewLogger(out, e.Config.Process.Log)
	return e, nil
}

// Collections returns the collections of the projections' read models.
func Collections(projections []*projection.Projection) []string {
	names := make([]string, len(projections))
	for i, p := range projections {
		names[i] = p.Collection()
	}
	return names
}

// load returns the projections of the file or folder, if one is set, and those in code.
func load(path string, inCode []*projection.Projection) ([]*projection.Projection, error) {
	projections := inCode
	if path != "" {
		declared, err := projection.Load(path)
		if err != nil {
			return nil, err
		}
		projections = append(declared, inCode...)
	}
	if len(projections) == 0 {
		// The validation of the configuration has reported this already.
		return nil, nil
	}
	return projections, projection.CheckSet(projections)
}
