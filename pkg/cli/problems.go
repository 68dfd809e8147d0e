package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

// wrongValue records that the value that kong is reading is wrong.
func (p *parser) wrongValue(value *kong.Value, text, wrong string) {
	shown := fmt.Sprintf("%q", text)
	if value.Tag.Has("secret") || mayBeSecret(text) {
		shown = hidden
		if text != "" {
			wrong = strings.ReplaceAll(wrong, text, shown)
		}
	}
	p.problems = append(p.problems, fmt.Sprintf("%s is %s, %s", p.subject(value), shown, wrong))
	p.markBroken(value)
}

// lacksValue records that a flag has no value but needs one.
func (p *parser) lacksValue(value *kong.Value) {
	p.problems = append(p.problems, fmt.Sprintf("%s lacks its value: write --%s=%s", p.subject(value), value.Name, value.Flag.FormatPlaceHolder()))
	p.markBroken(value)
}

// emptyValue records that a flag or an argument of a command is empty, for example because a
// variable of a shell is not set. A command would treat an empty choice as everything.
func (p *parser) emptyValue(value *kong.Value) {
	remedy := "give it a value"
	if value.Flag != nil {
		remedy += ", or leave it out"
	}
	p.problems = append(p.problems, p.subject(value)+" is empty: "+remedy)
}

// markBroken records that Validate will see a default instead of the value.
func (p *parser) markBroken(value *kong.Value) {
	if value.Flag != nil {
		for _, variable := range value.Flag.Envs {
			p.broken[variable] = true
		}
	}
}

// subject names a value by the way it was set, followed by the other way.
func (p *parser) subject(value *kong.Value) string {
	switch flag := value.Flag; {
	case flag == nil:
		return "<" + value.Name + ">"
	case p.source == fromEnvironment:
		return p.variable + " (--" + flag.Name + ")"
	case len(flag.Envs) > 0:
		return "--" + flag.Name + " (" + flag.Envs[0] + ")"
	default:
		return "--" + flag.Name
	}
}

// refusedFlag describes the flag at which kong stopped.
func (p *parser) refusedFlag(ctx *kong.Context) string {
	unknown, isUnknown := strings.CutPrefix(ctx.Error.Error(), "unknown flag ")
	node := selectedNode(ctx)
	help := fmt.Sprintf(`see "%s --help"`, node.FullPath())
	if !isUnknown {
		return ctx.Error.Error() + ": " + help
	}
	name, similar, isSimilar := strings.Cut(unknown, ", did you mean ")
	if isSimilar {
		return name + " is unknown: did you mean " + strings.ReplaceAll(similar, `"`, "")
	}
	if node.Parent == nil {
		for _, flag := range p.flags {
			if name == "--"+flag.Name {
				return name + " stands before its command: write it after the command"
			}
		}
	}
	return name + " is unknown: " + help
}

// selectedNode returns the command that the arguments name, or the program.
func selectedNode(ctx *kong.Context) *kong.Node {
	if node := ctx.Selected(); node != nil {
		return node
	}
	return ctx.Model.Node
}

// validate calls Validate of the configuration and of the chosen commands. It omits
// problems of variables that already have one, because Validate saw their defaults.
func (p *parser) validate() {
	for _, validate := range p.validators {
		for _, err := range flatten(validate()) {
			line := err.Error()
			if variable := p.variableIn(line); variable != "" {
				if p.broken[variable] {
					continue
				}
				line = variable + " (--" + p.flagOf(variable).Name + ")" + strings.TrimPrefix(line, variable)
			}
			p.problems = append(p.problems, p.hide(line))
		}
	}
}

// hide replaces the settings that may be secrets in a line.
func (p *parser) hide(line string) string {
	for _, text := range p.doubtful {
		for _, form := range []string{strconv.Quote(text), text} {
			line = strings.ReplaceAll(line, form, hidden)
		}
	}
	return line
}

// flatten returns the errors that [errors.Join] has joined into err. It does not split
// other errors that wrap several.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	var texts []string
	for _, one := range several.Unwrap() {
		all = append(all, flatten(one)...)
		texts = append(texts, one.Error())
	}
	if err.Error() != strings.Join(texts, "\n") {
		return []error{err}
	}
	return all
}

// variableIn returns the variable that line starts with.
func (p *parser) variableIn(line string) string {
	end := strings.IndexFunc(line, func(r rune) bool {
		return r != '_' && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
	if end <= 0 || p.flagOf(line[:end]) == nil {
		return ""
	}
	return line[:end]
}

func (p *parser) flagOf(variable string) *kong.Flag {
	for _, flag := range p.flags {
		if slices.Contains(flag.Envs, variable) {
			return flag
		}
	}
	return nil
}

// report prints the problems.
func (p *parser) report() error {
	if len(p.problems) == 0 {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s in the configuration:\n", p.info.Name, Count(int64(len(p.problems)), "problem"))
	for _, line := range p.problems {
		// A problem stays on one line, even if it quotes a line break.
		fmt.Fprintf(&b, "  - %s\n", strings.ReplaceAll(line, "\n", "; "))
	}
	fmt.Fprintf(&b, "%s --help explains every setting.\n", p.info.Name)
	if _, err := p.stderr.Write([]byte(b.String())); err != nil {
		return fmt.Errorf("%w: print problems: %w", ErrUsage, err)
	}
	return ErrUsage
}
