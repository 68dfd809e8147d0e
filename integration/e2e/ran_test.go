package e2e_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/penstock-cdc/penstock/integration/harness"
)

// ran records the commands that the tests run through the two programs. After the whole
// suite, TestMain fails if a command or a flag was not among them.
var ran runs

// runs are the command lines of programs. It is safe for concurrent use.
type runs struct {
	mu   sync.Mutex
	list []commandRun
}

// commandRun is a command line that has ended.
type commandRun struct {
	program string
	args    []string
	status  int
}

// add records a run of a program, given by its path.
func (r *runs) add(program string, args []string, status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, commandRun{filepath.Base(program), slices.Clone(args), status})
}

// of returns the runs of a command and of all commands of its group, such as "quarantine
// list" and "quarantine".
func (r *runs) of(program, command string) (exact, group []commandRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	path := strings.Fields(command)
	for _, one := range r.list {
		if one.program != program {
			continue
		}
		// Flags of the configuration can stand before the command.
		words := one.args
		for len(words) > 0 && strings.HasPrefix(words[0], "--") {
			words = words[1:]
		}
		if len(words) > 0 && words[0] == path[0] {
			group = append(group, one)
			if len(words) >= len(path) && slices.Equal(words[:len(path)], path) {
				exact = append(exact, one)
			}
		}
	}
	return exact, group
}

// has reports whether a run used a flag.
func (c commandRun) has(flag string) bool {
	return slices.ContainsFunc(c.args, func(arg string) bool { return arg == flag || strings.HasPrefix(arg, flag+"=") })
}

var (
	listedCommand = regexp.MustCompile(`(?m)^  ([a-z]+(?: [a-z]+)?)(?:  |$)`)
	listedFlag    = regexp.MustCompile(`(?m)^ {2}(?:-[a-z], | {4})(--[a-z-]+)`)
)

// shared are flags with the same code in every command. One run of a program is enough.
var shared = []string{"--yes", "--why", "--who", "--output"}

// missing returns the commands of a program that no run has ended with status 0, and the
// flags that no run has used. help returns the help of a command; of the program without
// one. A flag counts for all commands of a group, because they share its code.
func (r *runs) missing(program string, help func(command ...string) (string, error)) (problems []string, err error) {
	text, err := help()
	if err != nil {
		return nil, err
	}
	_, text, _ = strings.Cut(text, "\nCommands:\n")
	text, _, found := strings.Cut(text, "\nFlags:\n")
	commands := listedCommand.FindAllStringSubmatch(text, -1)
	if !found || len(commands) == 0 {
		return nil, fmt.Errorf("%s --help lists no commands", program)
	}
	for _, match := range commands {
		command := match[1]
		if command == "run" {
			continue // the service, which almost every test starts
		}
		exact, group := r.of(program, command)
		if !slices.ContainsFunc(exact, func(one commandRun) bool { return one.status == 0 }) {
			problems = append(problems, fmt.Sprintf("%s %s has not ended with status 0", program, command))
		}
		usage, err := help(strings.Fields(command)...)
		if err != nil {
			return nil, err
		}
		_, usage, _ = strings.Cut(usage, "\nFlags:\n")
		for _, flag := range listedFlag.FindAllStringSubmatch(usage, -1) {
			if flag[1] != "--help" && !slices.Contains(shared, flag[1]) && !slices.ContainsFunc(group, func(one commandRun) bool { return one.has(flag[1]) }) {
				problems = append(problems, fmt.Sprintf("%s %s has not run with %s", program, command, flag[1]))
			}
		}
	}
	for _, flag := range shared {
		if !slices.ContainsFunc(r.list, func(one commandRun) bool { return one.program == program && one.has(flag) }) {
			problems = append(problems, fmt.Sprintf("%s has not run with %s", program, flag))
		}
	}
	return problems, nil
}

// notRun returns what [runs.missing] finds for both programs.
func notRun(ctx context.Context) ([]string, error) {
	var problems []string
	for _, path := range []string{suite.services.Publisher, suite.services.Projector} {
		found, err := ran.missing(filepath.Base(path), func(command ...string) (string, error) {
			out, err := exec.CommandContext(ctx, path, append(command, "--help")...).Output()
			return string(out), err
		})
		if err != nil {
			return nil, fmt.Errorf("find the commands of %s: %w", path, err)
		}
		problems = append(problems, found...)
	}
	return problems, nil
}

// Projector runs a command of the projector as [harness.Pipeline.Projector] does.
func (s *scenario) Projector(ctx context.Context, args ...string) (harness.Output, error) {
	out, err := s.Pipeline.Projector(ctx, args...)
	if err == nil {
		ran.add(suite.services.Projector, args, out.Status)
	}
	return out, err
}

// Publisher runs a command of the publisher as [harness.Pipeline.Publisher] does.
func (s *scenario) Publisher(ctx context.Context, args ...string) (harness.Output, error) {
	out, err := s.Pipeline.Publisher(ctx, args...)
	if err == nil {
		ran.add(suite.services.Publisher, args, out.Status)
	}
	return out, err
}

// TestMissingRunsAreNamed checks that a command and a flag that no test has run are found.
func TestMissingRunsAreNamed(t *testing.T) {
	t.Parallel()
	helps := map[string]string{
		"":          "Usage\n\nCommands:\n  run        Run.\n  list       List.\n  box open   Open a\n             box.\n  box shut\n             Shut it.\n\nFlags:\n  -h, --help\n",
		"list":      "\nFlags:\n  -h, --help    Help.\n      --output=FORMAT    How.\n      --first=N    How many\n                   --not-a-flag.\n",
		"box open":  "\nFlags:\n      --yes    No question.\n      --name=NAME    Which.\n      --wait    Wait.\n",
		"box shut":  "\nFlags:\n      --yes    No question.\n      --name=NAME    Which.\n",
		"box other": "",
	}
	var r runs
	r.add("/bin/tool", []string{"--setting=1", "list", "--first", "3", "--output=json"}, 0)
	r.add("/bin/tool", []string{"box", "open", "--yes", "--why=x", "--who=y"}, 1)
	r.add("/bin/tool", []string{"box", "shut", "--name=a"}, 0)
	r.add("/bin/other", []string{"box", "open", "--wait"}, 0)
	got, err := r.missing("tool", func(command ...string) (string, error) { return helps[strings.Join(command, " ")], nil })
	want := []string{"tool box open has not ended with status 0", "tool box open has not run with --wait"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("missing are %q, %v; want %q", got, err, want)
	}
	if _, err := r.missing("tool", func(...string) (string, error) { return "", nil }); err == nil {
		t.Error("a help without commands is no error")
	}
}
