package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// read fills the configuration and returns the chosen command. An error is a mistake in the
// declaration of the configuration.
func (p *parser) read(args []string, environ func(string) (string, bool)) (Chosen, error) {
	ctx, err := p.trace(args)
	if err != nil {
		return Chosen{}, err
	}
	ctx.AddResolver(kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		for _, variable := range flag.Envs {
			if value, _ := environ(variable); value != "" {
				p.source, p.variable = fromEnvironment, variable
				return value, nil
			}
		}
		return nil, nil //nolint:nilnil // kong expects nil if there is no value
	}))
	p.source = fromDeclaration
	if err := ctx.Reset(); err != nil {
		return Chosen{}, fmt.Errorf("apply defaults: %w", err)
	}
	if err := ctx.Resolve(); err != nil {
		return Chosen{}, fmt.Errorf("apply defaults and environment: %w", err)
	}
	if _, err := ctx.Apply(); err != nil {
		return Chosen{}, fmt.Errorf("apply arguments: %w", err)
	}
	p.readSecretFiles()
	p.source = fromArguments
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
				p.validators = append(p.validators, v.Validate)
			}
		}
	}
	if ctx.Error == nil {
		p.checkComplete(ctx)
	}
	return chosen, nil
}

// trace lets kong parse the arguments. kong stops at the first unknown flag, so trace
// records that flag, removes it and begins again.
func (p *parser) trace(args []string) (*kong.Context, error) {
	p.source = fromArguments
	for {
		noted := len(p.problems)
		ctx, err := kong.Trace(p.kong, args)
		if err != nil {
			return nil, fmt.Errorf("read arguments: %w", err)
		}
		if ctx.Error == nil {
			return ctx, nil
		}
		rest := ctx.Path[len(ctx.Path)-1].Remainder()
		at := len(args) - len(rest)
		if len(rest) == 0 || at < 0 || args[at] != rest[0] || !strings.HasPrefix(rest[0], "--") || rest[0] == "--" {
			p.problems = append(p.problems, fmt.Sprintf(`%s: see "%s --help"`, ctx.Error, selectedNode(ctx).FullPath()))
			return ctx, nil
		}
		// The next run records the earlier problems again.
		p.problems = append(p.problems[:noted], p.refusedFlag(ctx))
		clear(p.broken)
		args = slices.Delete(slices.Clone(args), at, at+1)
	}
}

// checkRequired reports flags that are missing and that kong's required tag demands.
func (p *parser) checkRequired(node *kong.Node) {
	for _, flag := range node.Flags {
		if flag.Required && !flag.Set {
			p.problems = append(p.problems, p.subject(flag.Value)+" is not set: "+flag.Help)
		}
	}
}

// checkComplete reports a command or an argument that is missing.
func (p *parser) checkComplete(ctx *kong.Context) {
	node := selectedNode(ctx)
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
