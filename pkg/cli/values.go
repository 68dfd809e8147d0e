package cli

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// readEnvironment makes what the environment says the default of its flag.
func (p *parser) readEnvironment(environ func(string) (string, bool)) {
	for _, flag := range p.flags {
		for _, variable := range p.envs[flag.Value] {
			value, ok := environ(variable)
			if !ok || value == "" {
				continue
			}
			wrong := try(flag, value)
			if wrong == "" {
				flag.Default, flag.HasDefault, flag.Required = value, true, false
				break
			}
			if !p.broken[variable] { // commands may share a variable
				p.problem(variable, flag, value, wrong)
			}
			p.broken[variable] = true
			break
		}
	}
}

// readArguments fills the configuration and gives the chosen command. An error is a
// mistake in the configuration's declaration.
func (p *parser) readArguments(args []string) (Chosen, error) {
	ctx, err := kong.Trace(p.kong, p.checkFlags(args))
	if err != nil {
		return Chosen{}, fmt.Errorf("read arguments: %w", err)
	}
	if ctx.Error != nil {
		p.problems = append(p.problems, ctx.Error.Error()+`: see "`+p.info.Name+` --help"`)
	}
	if err := ctx.Reset(); err != nil {
		return Chosen{}, fmt.Errorf("apply defaults: %w", err)
	}
	if _, err := ctx.Apply(); err != nil {
		return Chosen{}, fmt.Errorf("apply arguments: %w", err)
	}
	var chosen Chosen
	for _, step := range ctx.Path {
		node := step.Node()
		if node == nil {
			continue
		}
		p.checkRequired(node)
		if step.Command != nil {
			chosen.Path = strings.TrimSpace(chosen.Path + " " + step.Command.Name)
			chosen.Command = node.Target.Addr().Interface()
			if v, ok := chosen.Command.(Validator); ok {
				p.validators = append(p.validators, v)
			}
		}
	}
	if ctx.Error == nil {
		p.checkComplete(ctx)
	}
	return chosen, nil
}

// checkFlags tries each flag of args on its own and leaves out those that are
// wrong, so that each is reported.
func (p *parser) checkFlags(args []string) []string {
	var good []string
	node := p.kong.Model.Node
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return append(good, args[i:]...)
		}
		name, value, hasValue := strings.Cut(arg, "=")
		if !strings.HasPrefix(name, "--") {
			good = append(good, arg)
			node = descend(node, arg)
			continue
		}
		flag, negated := find(node, name)
		if flag == nil {
			p.problems = append(p.problems, p.unknownFlag(node, name))
			continue
		}
		taken := args[i : i+1]
		if !hasValue && !flag.IsBool() && !flag.IsCounter() {
			if i+1 == len(args) || strings.HasPrefix(args[i+1], "--") {
				p.problems = append(p.problems, fmt.Sprintf("%s lacks its value: write %s=%s", p.subject("", flag), name, flag.FormatPlaceHolder()))
				continue
			}
			i++
			taken = args[i-1 : i+1]
			value, hasValue = args[i], true
		}
		if hasValue && !negated {
			if wrong := try(flag, value); wrong != "" {
				for _, variable := range p.envs[flag.Value] {
					p.broken[variable] = true
				}
				p.problem("", flag, value, wrong)
				continue
			}
		}
		good = append(good, taken...)
	}
	return good
}

// descend gives the command of node that arg names; node itself if there is none.
func descend(node *kong.Node, arg string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == arg {
			return child
		}
	}
	return node
}

// find gives the flag of that name, with its dashes, which node or one of its parents
// has. Commands may have flags of the same name and of different types.
func find(node *kong.Node, name string) (flag *kong.Flag, negated bool) {
	for ; node != nil; node = node.Parent {
		for _, flag := range node.Flags {
			if name == "--"+flag.Name || slices.Contains(flag.Aliases, name[2:]) {
				return flag, false
			}
			if flag.Tag.Negatable != "" && name == "--no-"+flag.Name {
				return flag, true
			}
		}
	}
	return nil, false
}

// try reads a value into a scratch variable of the flag's type. It says what is
// wrong, with the remedy; empty where nothing is.
func try(flag *kong.Flag, text string) string {
	scratch := reflect.New(flag.Target.Type()).Elem()
	set := flag.Set
	err := flag.Parse(kong.ScanFromTokens(kong.Token{Type: kong.FlagValueToken, Value: text}), scratch)
	flag.Set = set
	if err != nil {
		return mismatch(flag, text, err)
	}
	if flag.Enum == "" {
		return ""
	}
	allowed := flag.EnumSlice()
	given := []string{text}
	if flag.IsSlice() {
		given = strings.Split(text, string(flag.Tag.Sep))
	}
	for _, one := range given {
		if !slices.Contains(allowed, one) {
			return "unknown: use one of " + strings.Join(allowed, ", ")
		}
	}
	return ""
}

// mismatch says in an operator's words why a value is not of the flag's type.
func mismatch(flag *kong.Flag, value string, err error) string {
	t := flag.Target.Type()
	if reader, ok := reflect.New(t).Interface().(encoding.TextUnmarshaler); ok {
		// It knows best what it reads.
		if err := reader.UnmarshalText([]byte(value)); err != nil {
			return err.Error()
		}
	}
	if t == reflect.TypeFor[time.Duration]() {
		return "not a duration: write a number with its unit, such as 500ms, 15s or 2m"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "neither true nor false: use one of them"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return fmt.Sprintf("not a whole number of %d bits: write digits alone", t.Bits())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return fmt.Sprintf("not a whole number of %d bits from 0: write digits alone", t.Bits())
	case reflect.Float32, reflect.Float64:
		return "not a number: write digits, with a point where needed"
	}
	return strings.TrimPrefix(err.Error(), "--"+flag.Name+": ")
}

// checkRequired reports what kong's required tag asks for.
func (p *parser) checkRequired(node *kong.Node) {
	for _, flag := range node.Flags {
		if flag.Required && !flag.Set && !p.isBroken(flag) {
			p.problems = append(p.problems, p.subject("", flag)+" is not set: "+flag.Help)
		}
	}
}

// checkComplete reports a command or an argument that is missing.
func (p *parser) checkComplete(ctx *kong.Context) {
	node := ctx.Selected()
	if node == nil {
		node = ctx.Model.Node
	}
	for _, argument := range node.Positional {
		if argument.Required && !argument.Set {
			p.problems = append(p.problems, fmt.Sprintf("<%s> is missing: %s", argument.Name, argument.Help))
		}
	}
	var commands []string
	for _, child := range node.Children {
		if !child.Hidden {
			commands = append(commands, child.Name)
		}
	}
	if len(commands) > 0 {
		p.problems = append(p.problems, "a command is missing: use one of "+strings.Join(commands, ", "))
	}
}
