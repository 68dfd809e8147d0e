package cli

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// helpWidth is the largest width of the help, in characters.
const helpWidth = 110

// answer prints the help or the version if args ask for it.
func (p *parser) answer(args []string) (bool, error) {
	for _, arg := range args {
		switch arg {
		case "--":
			return false, nil
		case "-h", "--help":
			return true, p.printHelp(args)
		case "--version":
			if _, err := fmt.Fprintf(p.stdout, "%s %s\n", p.info.Name, Version()); err != nil {
				return true, fmt.Errorf("print version: %w", err)
			}
			return true, ErrHelp
		}
	}
	return false, nil
}

func (p *parser) printHelp(args []string) error {
	// Other mistakes in args do not matter here: the trace reaches the command whose help
	// is requested.
	ctx, err := kong.Trace(p.kong, args)
	if err != nil {
		return fmt.Errorf("read arguments: %w", err)
	}
	p.hideConfiguration(ctx.Selected())
	options := kong.HelpOptions{WrapUpperBound: helpWidth, ValueFormatter: p.describe, Compact: true, FlagsLast: true}
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return fmt.Errorf("print help: %w", err)
	}
	return ErrHelp
}

// hideConfiguration removes the flags of the program from the help of a command. The
// default command is the program itself, so its help keeps them.
func (p *parser) hideConfiguration(command *kong.Node) {
	root := p.kong.Model.Node
	if command == nil || command == root || command == root.DefaultCmd {
		return
	}
	hidden := false
	for _, flag := range root.Flags {
		if flag != p.kong.Model.HelpFlag {
			flag.Hidden, hidden = true, true
		}
	}
	if hidden && command.Detail == "" {
		command.Detail = fmt.Sprintf("The command also takes the configuration of %[1]s, from the same variables and flags: see \"%[1]s --help\".", p.info.Name)
	}
}

// describe returns a flag's help with its default and its variable.
func (p *parser) describe(value *kong.Value) string {
	var notes []string
	if value.HasDefault && value.Default != "" {
		notes = append(notes, "default "+value.Default)
	}
	if value.Flag != nil {
		for _, variable := range value.Flag.Envs {
			notes = append(notes, "$"+variable)
		}
	}
	if len(notes) == 0 {
		return value.Help
	}
	return strings.TrimSpace(value.Help + " [" + strings.Join(notes, ", ") + "]")
}

// placeholder names a flag's type.
func placeholder(flag *kong.Flag) string {
	t := flag.Target.Type()
	if t == reflect.TypeFor[time.Duration]() {
		return "DURATION"
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "N"
	case reflect.Float32, reflect.Float64:
		return "NUMBER"
	}
	return "VALUE"
}
