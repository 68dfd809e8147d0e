package cli

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// helpWidth is the largest width of the help, in characters.
const helpWidth = 110

// help prints the help of a program or a command. It removes the flags of the program from the
// help of a command. The default command is the program itself, so its help keeps them.
func help(options kong.HelpOptions, ctx *kong.Context) error {
	command, root := ctx.Selected(), ctx.Model.Node
	if command != nil && command != root.DefaultCmd && len(root.Flags) > 2 {
		for _, flag := range root.Flags {
			flag.Hidden = flag != ctx.Model.HelpFlag
		}
		if command.Detail == "" {
			command.Detail = fmt.Sprintf("The command also takes the configuration of %[1]s, from the same variables and flags: see \"%[1]s --help\".", ctx.Model.Name)
		}
	}
	return kong.DefaultHelpPrinter(options, ctx)
}

// describe returns a flag's help with its default, which kong leaves out beside a placeholder, and
// its variables.
func describe(value *kong.Value) string {
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
	return value.Help + " [" + strings.Join(notes, ", ") + "]"
}
