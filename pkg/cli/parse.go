package cli

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// ErrHelp says that Parse has printed the requested help or version, and that there is
// nothing else to do. The process exits with status 0.
var ErrHelp = errors.New("help was printed")

// ErrUsage says that the arguments or the configuration are wrong, and that the problems have
// been printed. The process exits with status 2.
var ErrUsage = errors.New("the configuration is wrong")

// Info describes a program.
type Info struct {
	// Name is the program's name in its help and errors.
	Name string
	// Description is the first text of the help.
	Description string
}

// Problems collects the problems of a configuration, which joins them. Each is one line that
// starts with the wrong environment variable and ends with the remedy.
type Problems []error

// Require adds a problem unless ok.
func (p *Problems) Require(ok bool, format string, args ...any) {
	if !ok {
		*p = append(*p, fmt.Errorf(format, args...))
	}
}

// Parse fills the kong-tagged struct that config points to. A value comes from the
// arguments, or else from the environment, or else from the default. An empty variable
// counts as unset, because deployment templates leave unused variables empty. An empty flag
// or argument of a command is a problem: a shell's variable that is not set would choose
// everything. args do not have the program's name. environ is [os.LookupEnv] outside tests.
//
// -h, --help and --version print to stdout and return [ErrHelp]. Problems are printed on
// stderr, and the error is [ErrUsage]: kong's first problem with the arguments and values, or
// else all problems that its method CheckFor returns, if it has one: CheckFor gets the struct of
// the chosen command, nil if there are no commands, and joins the problems of what that command
// needs. A command checks its own flags with kong's Validate. Any other error means that kong
// cannot read the struct.
//
// No problem shows a value with =, ;, @ or ://, because it may be a secret in the wrong place.
// A setting with an environment variable refuses a value that looks like a connection string,
// because services print settings; exceptions are fields of the type secret.Text and those
// tagged url:"".
//
// Flags of config are the configuration of every command. The help of a command other than the
// default one omits them and refers to the help of the program.
func Parse(config any, info Info, args []string, environ func(string) (string, bool), stdout, stderr io.Writer) (Chosen, error) {
	p := parser{environ: environ, doubtful: args}
	answered := false
	k, err := kong.New(config,
		kong.Name(info.Name),
		kong.Description(info.Description),
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { answered = true }),
		kong.Help(help),
		kong.ValueFormatter(describe),
		kong.ConfigureHelp(kong.HelpOptions{WrapUpperBound: helpWidth, Compact: true, FlagsLast: true}),
		kong.Vars{"why": "optional", "version": info.Name + " " + Version()},
		kong.Resolvers(kong.ResolverFunc(p.resolve)),
		kong.TypeMapper(reflect.TypeFor[time.Time](), kong.MapperFunc(instant)),
		kong.Embed(&struct {
			Version kong.VersionFlag `help:"Print the version."`
		}{}),
	)
	if err != nil {
		return Chosen{}, fmt.Errorf("read the declaration of the configuration: %w", err)
	}
	if len(k.Model.Children) > 0 {
		k.Model.Detail = exitCodes
	}
	p.collect(k.Model.Node)
	var chosen Chosen
	for _, flag := range p.flags {
		chosen.Variables = append(chosen.Variables, flag.Envs...)
	}
	ctx, err := k.Parse(args)
	if answered {
		return chosen, ErrHelp
	}
	if err != nil {
		return chosen, p.report(info, stderr, p.named(err))
	}
	for _, step := range ctx.Path {
		if step.Command != nil {
			chosen.Path = strings.TrimSpace(chosen.Path + " " + step.Command.Name)
			chosen.Command = step.Command.Target.Addr().Interface()
		}
	}
	problems := append(p.empty(ctx), p.connectionStrings()...)
	problems = append(problems, proxies(environ)...)
	if c, ok := config.(interface{ CheckFor(command any) error }); ok {
		problems = append(problems, c.CheckFor(chosen.Command))
	}
	return chosen, p.report(info, stderr, errors.Join(problems...))
}

// Chosen is the command that the arguments name.
type Chosen struct {
	// Path is the command with its parents, such as "parked retry"; empty if the
	// program has no commands.
	Path string
	// Command points to the command's struct, which is filled; nil if the program has
	// no commands.
	Command any
	// Variables are the environment variables of the configuration and of all commands.
	Variables []string
}

// instant reads a time.
func instant(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("time", &text); err != nil {
		return err
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		at, err = time.Parse(time.DateOnly, text)
	}
	if err != nil {
		return fmt.Errorf("%q is not a time: use an RFC 3339 time such as 2026-03-01T12:00:00Z, or a date such as 2026-03-01, which is its first moment in UTC", text)
	}
	target.Set(reflect.ValueOf(at))
	return nil
}

// parser is one run of [Parse].
type parser struct {
	environ func(string) (string, bool)
	// flags are those of all commands.
	flags []*kong.Flag
	// doubtful are the values that may be secrets.
	doubtful []string
}

// collect records the flags of node and of its commands. It removes the variables from the
// tag and keeps them in flag.Envs, because kong looks up those of the tag in the environment of
// the process, and takes an empty one for a value.
func (p *parser) collect(node *kong.Node) {
	for _, flag := range node.Flags {
		p.flags = append(p.flags, flag)
		flag.Tag.Envs = nil
	}
	for _, child := range node.Children {
		p.collect(child)
	}
}

// resolve returns the value of a flag in the environment. It implements [kong.ResolverFunc].
func (p *parser) resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, variable := range flag.Envs {
		if value, _ := p.environ(variable); value != "" {
			p.doubtful = append(p.doubtful, value)
			return value, nil
		}
	}
	return nil, nil //nolint:nilnil // kong expects nil if there is no value
}

// named adds the names of the variables to an error of kong that names flags only.
func (p *parser) named(err error) error {
	text := err.Error()
	for _, flag := range p.flags {
		if name, _, _ := strings.Cut(text, " "); len(flag.Envs) > 0 && strings.TrimSuffix(name, ":") == "--"+flag.Name {
			return fmt.Errorf("%s (%w)", flag.Envs[0], err)
		}
	}
	return err
}

// empty reports empty flags and arguments of commands.
func (p *parser) empty(ctx *kong.Context) (problems []error) {
	for _, step := range ctx.Path {
		value := step.Positional
		if step.Flag != nil && !step.Resolved && len(step.Flag.Envs) == 0 {
			value = step.Flag.Value
		}
		if value == nil {
			continue
		}
		text := value.Target
		if text.Kind() == reflect.Slice && text.Len() > 0 {
			text = text.Index(text.Len() - 1)
		}
		if text.Kind() == reflect.String && text.Len() == 0 || text.Kind() == reflect.Slice {
			problems = append(problems, fmt.Errorf("%s is empty: give it a value, or leave it out", value.ShortSummary()))
		}
	}
	return problems
}

// report prints the problems.
func (p *parser) report(info Info, stderr io.Writer, problems error) error {
	if problems == nil {
		return nil
	}
	lines := strings.Split(p.hide(problems.Error()), "\n")
	text := fmt.Sprintf("%s: %s in the configuration:\n  - %s\n%s --help explains every setting.\n",
		info.Name, Count(int64(len(lines)), "problem"), strings.Join(lines, "\n  - "), info.Name)
	if _, err := io.WriteString(stderr, text); err != nil {
		return fmt.Errorf("%w: print problems: %w", ErrUsage, err)
	}
	return ErrUsage
}
