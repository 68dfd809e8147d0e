package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/alecthomas/kong"
)

// ErrHelp says that Parse has printed the requested help or version, and that there is
// nothing else to do. The process exits with status 0.
var ErrHelp = errors.New("help was printed")

// ErrUsage says that the arguments or the configuration are wrong, and that every problem
// has been printed. The process exits with status 2.
var ErrUsage = errors.New("the configuration is wrong")

// Info describes a program.
type Info struct {
	// Name is the program's name in its help and errors.
	Name string
	// Description is the first text of the help.
	Description string
}

// Validator is a configuration that can check itself. Validate joins all its problems with
// [errors.Join]. Each is one line that starts with the wrong environment variable and ends
// with the remedy.
type Validator interface {
	Validate() error
}

// Problems collects the problems of a [Validator], which joins them.
type Problems []error

// Require adds a problem unless ok.
func (p *Problems) Require(ok bool, format string, args ...any) {
	if !ok {
		*p = append(*p, fmt.Errorf(format, args...))
	}
}

// Selective is the configuration of a program with commands: it checks only the needs of
// the chosen command. command points to the command's struct. The result is like that of
// [Validator]. If a configuration is Selective, Parse does not call its Validate.
type Selective interface {
	ValidateFor(command any) error
}

// Parse fills the kong-tagged struct that config points to. A value comes from the
// arguments, or else from the environment, or else from the default. An empty variable
// counts as unset, because deployment templates leave unused variables empty. An empty flag
// or argument of a command is a problem. args do not have the program's name. environ is
// [os.LookupEnv] outside tests.
//
// -h, --help and --version print to stdout and return [ErrHelp]. Otherwise Parse prints
// every problem on a line of its own on stderr, and returns [ErrUsage]. It reports all
// wrong arguments and variables together, and the problems of Validate if config or the
// chosen command has it. Any other error means that kong cannot read the struct.
//
// Fields tagged secret:"" never show their value. Strings among them lose the white space
// around them. No problem shows a value with =, ;, @ or ://, because it may be a secret in the
// wrong place; the URL of a host alone is none. A setting with an environment variable refuses
// a value that looks like a connection string, because services print settings; exceptions are
// fields tagged secret:"" or url:"". A field tagged content:"name" is the path of a file with
// the secret of the flag of that name, which it sets. kong's tags xor, lastwins and similar
// ones are not checked: Validate explains such rules better.
func Parse(config any, info Info, args []string, environ func(string) (string, bool), stdout, stderr io.Writer) error {
	_, err := ParseCommand(config, info, args, environ, stdout, stderr)
	return err
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

// ParseCommand is [Parse] for a program with commands: it also returns the chosen one.
// Flags of config are the configuration of every command. The help of a command other than
// the default one omits them and refers to the help of the program.
func ParseCommand(config any, info Info, args []string, environ func(string) (string, bool), stdout, stderr io.Writer) (Chosen, error) {
	p, err := newParser(config, info, stdout, stderr)
	if err != nil {
		return Chosen{}, err
	}
	if answered, err := p.answer(args); answered {
		return Chosen{}, err
	}
	chosen, err := p.read(args, environ)
	if err != nil {
		return Chosen{}, err
	}
	if s, ok := config.(Selective); ok && chosen.Command != nil {
		p.validators = append(p.validators, func() error { return s.ValidateFor(chosen.Command) })
	}
	p.checkProxies(environ)
	p.validate()
	for _, flag := range p.flags {
		chosen.Variables = append(chosen.Variables, flag.Envs...)
	}
	return chosen, p.report()
}

// parser is one run of [Parse].
type parser struct {
	info   Info
	kong   *kong.Kong
	stdout io.Writer
	stderr io.Writer

	// flags are those of all commands.
	flags []*kong.Flag
	// validators check the configuration and the chosen commands, if they implement
	// [Validator] or [Selective].
	validators []func() error

	// problems are the lines to print. broken has the variables that already have a
	// problem.
	problems []string
	broken   map[string]bool
	// doubtful are the values that may be secrets.
	doubtful []string

	// source says where the value that kong is reading comes from. variable is its name if
	// the source is the environment.
	source   source
	variable string
}

// source is the origin of a value.
type source int

const (
	fromDeclaration source = iota
	fromArguments
	fromEnvironment
)

func newParser(config any, info Info, stdout, stderr io.Writer) (*parser, error) {
	p := &parser{
		info: info, stdout: stdout, stderr: stderr,
		broken: make(map[string]bool),
	}
	var err error
	p.kong, err = kong.New(config,
		kong.Name(info.Name),
		kong.Description(info.Description),
		kong.Writers(stdout, stderr),
		kong.Vars{"why": "optional"},
		kong.Embed(&struct {
			Version bool `help:"Print the version."`
		}{}),
	)
	if err != nil {
		return nil, fmt.Errorf("read the declaration of the configuration: %w", err)
	}
	p.kong.Model.HelpFlag.Help = "Print this help."
	if len(p.kong.Model.Children) > 0 {
		p.kong.Model.Detail = exitCodes
	}
	p.collect(p.kong.Model.Node)
	_, selective := config.(Selective)
	if v, ok := config.(Validator); ok && !selective {
		p.validators = append(p.validators, v.Validate)
	}
	return p, nil
}

// collect records the flags of node and of its commands, and lets p see every value that
// kong reads. It removes the variables from the tag and keeps them in flag.Envs, because
// kong looks up those of the tag in the environment of the process.
func (p *parser) collect(node *kong.Node) {
	for _, flag := range node.Flags {
		p.flags = append(p.flags, flag)
		flag.Tag.Envs = nil
		flag.Mapper = collector{flag.Mapper, p}
		if flag.PlaceHolder == "" {
			flag.PlaceHolder = placeholder(flag)
		}
	}
	for _, argument := range node.Positional {
		argument.Mapper = collector{argument.Mapper, p}
	}
	for _, child := range node.Children {
		p.collect(child)
	}
}
