package cli

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// problem adds the line of a value that is wrong. variable is empty where the
// value came from the arguments.
func (p *parser) problem(variable string, flag *kong.Flag, value, wrong string) {
	shown := fmt.Sprintf("%q", value)
	if flag.Tag.Has("secret") {
		shown = "***"
	}
	p.problems = append(p.problems, fmt.Sprintf("%s is %s, %s", p.subject(variable, flag), shown, wrong))
}

// subject names a flag by how it was set, then by the other way.
func (p *parser) subject(variable string, flag *kong.Flag) string {
	if variable != "" {
		return variable + " (--" + flag.Name + ")"
	}
	if envs := p.envs[flag.Value]; len(envs) > 0 {
		return "--" + flag.Name + " (" + envs[0] + ")"
	}
	return "--" + flag.Name
}

func (p *parser) isBroken(flag *kong.Flag) bool {
	for _, variable := range p.envs[flag.Value] {
		if p.broken[variable] {
			return true
		}
	}
	return false
}

// unknownFlag is the problem of a flag that neither node nor its parents have.
func (p *parser) unknownFlag(node *kong.Node, name string) string {
	best, distance := "", 4
	for at := node; at != nil; at = at.Parent {
		for _, flag := range at.Flags {
			if flag.Hidden {
				continue
			}
			if d := editDistance(name[2:], flag.Name); d < distance {
				best, distance = flag.Name, d
			}
		}
	}
	if best != "" {
		return fmt.Sprintf("%s is unknown: did you mean --%s?", name, best)
	}
	if node.Parent == nil {
		for _, flag := range p.flags {
			if name == "--"+flag.Name {
				return fmt.Sprintf("%s stands before its command: write it behind the command", name)
			}
		}
	}
	return fmt.Sprintf(`%s is unknown: see "%s --help"`, name, node.FullPath())
}

// validate asks the configuration and the chosen commands. What they say about a
// variable that has a problem already is left out: they saw its default.
func (p *parser) validate() {
	for _, v := range p.validators {
		for _, err := range flatten(v.Validate()) {
			line := err.Error()
			if variable := p.variableIn(line); variable != "" {
				if p.broken[variable] {
					continue
				}
				line = variable + " (--" + p.flagOf(variable).Name + ")" + strings.TrimPrefix(line, variable)
			}
			p.problems = append(p.problems, line)
		}
	}
}

// flatten gives the errors that were joined into err by [errors.Join]. An error
// that wraps several in words of its own stays whole.
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

// variableIn gives the variable that line starts with.
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
		for _, env := range p.envs[flag.Value] {
			if env == variable {
				return flag
			}
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
	noun := "problems"
	if len(p.problems) == 1 {
		noun = "problem"
	}
	fmt.Fprintf(&b, "%s: %d %s in the configuration:\n", p.info.Name, len(p.problems), noun)
	for _, line := range p.problems {
		// A problem stays one line, whatever it quotes.
		fmt.Fprintf(&b, "  - %s\n", strings.ReplaceAll(line, "\n", "; "))
	}
	fmt.Fprintf(&b, "%s --help explains every setting.\n", p.info.Name)
	if _, err := p.stderr.Write([]byte(b.String())); err != nil {
		return fmt.Errorf("%w: print problems: %w", ErrUsage, err)
	}
	return ErrUsage
}

// editDistance is the Levenshtein distance of a and b, in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
