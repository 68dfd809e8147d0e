package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/alecthomas/kong"
)

// ErrHelp says that what was asked for has been printed, help or the version, and
// that there is nothing else to do. The process exits 0.
var ErrHelp = errors.New("help was printed")

// ErrUsage says that the arguments or the configuration are wrong, and that every
// problem has been printed. The process exits 2.
var ErrUsage = errors.New("the configuration is wrong")

// Info says what a program is.
type Info struct {
	// Name is the program's name in its help and errors.
	Name string
	// Description stands at the top of the help.
	Description string
	// Version is what --version prints; empty means [Version].
	Version string
}

// Validator is a configuration that can check itself. Validate joins all its
// problems with [errors.Join]; each is one line that starts with the environment
// variable that is wrong and ends with the remedy.
type Validator interface {
	Validate() error
}

// Selective is the configuration of a program with commands: it checks only what the
// chosen command needs. command points to the command's struct. The result is as that
// of [Validator]. A configuration that is Selective is not asked as a Validator too.
type Selective interface {
	ValidateFor(command any) error
}

// Parse fills the kong-tagged struct that config points to: from the arguments,
// else the environment, else the defaults. An empty variable counts as not set,
// as deployment templates leave them so. args do not hold the program's name, and
// environ is [os.LookupEnv] outside tests.
//
// -h, --help and --version print to stdout and give [ErrHelp]. Else every problem,
// of the arguments, of several variables, and of Validate where config and the
// chosen command have it, is printed on a line of its own on stderr, and Parse
// gives [ErrUsage]. Any other error means that kong cannot read the struct.
//
// Fields tagged secret:"" never show their value. kong's tags xor, lastwins and the like
// are not checked: Validate says more about such rules.
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
}

// ParseCommand is [Parse] for a program with commands: it also gives the chosen one.
// Flags of config are the configuration of every command; help of a command other than
// the default one leaves them out and refers to the help of the program.
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
		p.validators = append(p.validators, selected{s, chosen.Command})
	}
	p.validate()
	return chosen, p.report()
}

// selected is a [Selective] configuration with the chosen command.
type selected struct {
	config  Selective
	command any
}

func (s selected) Validate() error { return s.config.ValidateFor(s.command) }

// parser is one run of [Parse].
type parser struct {
	info   Info
	kong   *kong.Kong
	stdout io.Writer
	stderr io.Writer

	// flags are those of all commands.
	flags []*kong.Flag
	// validators are the configuration and the chosen commands, as far as they check
	// themselves.
	validators []Validator

	// problems are lines, and broken the variables that have one already.
	problems []string
	broken   map[string]bool

	// source is where the value comes from that kong reads now. variable is its name if
	// the source is the environment.
	source   source
	variable string
}

// source is where a value comes from.
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
	if v, ok := config.(Validator); ok {
		if _, ok := config.(Selective); !ok {
			p.validators = append(p.validators, v)
		}
	}
	return p, nil
}

// collect takes the flags of node and of its commands, and lets p see every value that
// kong reads. The variables stay in flag.Envs. kong looks up those of the tag by itself,
// in the environment of the process.
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
