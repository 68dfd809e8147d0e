package main

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

//go:embed javascript/*.mjs javascript/package.json javascript/package-lock.json
var scenarios embed.FS

// driver is a client of MongoDB with scenarios of this project.
type driver struct {
	name string
	want int // how many scenarios must pass
	// tools are the programs that it needs; remedy says how to install them.
	tools  []string
	remedy string
	// commands run one after the other in the folder of the scenarios. The last one
	// runs the scenarios and reports them as go test -json does.
	commands [][]string
}

// node is the official driver for Node.js.
var node = driver{
	name:   "node",
	want:   44,
	tools:  []string{"node", "npm"},
	remedy: "install Node.js 20.19 or later",
	commands: [][]string{
		{"npm", "ci", "--no-audit", "--no-fund", "--omit=optional"},
		// One file after the other: the server has one failCommand for all clients, as a real
		// one has, and files that set it would replace each other's.
		{"node", "--test", "--test-timeout=60000", "--test-concurrency=1", "--test-reporter=./reporter.mjs"},
	},
}

// outcome is the outcome of a scenario, or a part of its output.
type outcome struct {
	Action, Test, Output string
}

// check runs the scenarios, and those of the folders with, against a server, prints their outcomes, and fails if too
// few pass.
func (d driver) check(ctx context.Context, dir, uri string, with []string, verbose bool, out io.Writer) error {
	if tool := d.missing(); tool != "" {
		fmt.Fprintf(out, "%s not run: %s is not installed: %s\n", d.name, tool, d.remedy)
		return nil
	}
	if err := unpack(dir, with); err != nil {
		return err
	}
	var printed []byte
	var err error
	for _, command := range d.commands {
		if printed, err = execute(ctx, dir, uri, command); err != nil {
			break
		}
	}
	outcomes := read(printed)
	if len(outcomes) == 0 {
		return errors.Join(err, fmt.Errorf("no scenario of %s was run: %s", d.name, printed))
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return d.report(outcomes, verbose, out)
}

// missing returns the first tool that is not installed; empty if there is none.
func (d driver) missing() string {
	for _, tool := range d.tools {
		if _, err := exec.LookPath(tool); err != nil {
			return tool
		}
	}
	return ""
}

// drain is how long to wait for the output of a stopped command.
const drain = 5 * time.Second

func execute(ctx context.Context, dir, uri string, command []string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "MONGODB_URI="+uri)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, drain
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return stdout.Bytes(), fmt.Errorf("run %s: %w\n%s", strings.Join(command, " "), err, stderr.String())
	}
	return stdout.Bytes(), nil
}

// read collects the outcomes that a command printed, ordered by their names.
func read(printed []byte) []outcome {
	var outcomes []outcome
	said := map[string]string{}
	for line := range bytes.Lines(printed) {
		var o outcome
		if json.Unmarshal(line, &o) != nil || o.Test == "" {
			continue
		}
		if o.Action == "output" {
			said[o.Test] += o.Output
			continue
		}
		o.Output = said[o.Test]
		outcomes = append(outcomes, o)
	}
	slices.SortStableFunc(outcomes, func(a, b outcome) int { return strings.Compare(a.Test, b.Test) })
	return outcomes
}

func (d driver) report(outcomes []outcome, verbose bool, out io.Writer) error {
	fmt.Fprintf(out, "\n%s\n", d.name)
	passed := 0
	for _, o := range outcomes {
		if o.Action == "pass" {
			passed++
		}
		why, _, _ := strings.Cut(o.Output, "\n")
		fmt.Fprintf(out, "  %-4s  %-70s %s\n", o.Action, o.Test, why)
		if verbose && o.Action != "pass" {
			fmt.Fprintln(out, "        | "+strings.ReplaceAll(o.Output, "\n", "\n        | "))
		}
	}
	fmt.Fprintf(out, "\n%-14s %3d scenarios: %3d passed (wanted: %d), %d did not\n", d.name, len(outcomes), passed, d.want, len(outcomes)-passed)
	if passed < d.want || passed < len(outcomes) {
		return fmt.Errorf("%d of %d scenarios of %s passed, want %d: run with --verbose", passed, len(outcomes), d.name, max(d.want, len(outcomes)))
	}
	return nil
}

// unpack writes the scenarios, and the programs and scenarios of the folders with, to the folder
// dir.
func unpack(dir string, with []string) error {
	entries, err := scenarios.ReadDir("javascript")
	for _, e := range entries {
		var content []byte
		if content, err = scenarios.ReadFile("javascript/" + e.Name()); err != nil {
			break
		}
		if err = os.WriteFile(filepath.Join(dir, e.Name()), content, 0o600); err != nil {
			break
		}
	}
	for _, folder := range with {
		err = cmp.Or(err, copyPrograms(dir, folder))
	}
	if err != nil {
		return fmt.Errorf("unpack the scenarios: %w", err)
	}
	return nil
}

// copyPrograms copies the JavaScript of a folder.
func copyPrograms(dir, from string) error {
	programs, err := filepath.Glob(filepath.Join(from, "*.mjs"))
	if err == nil && len(programs) == 0 {
		err = fmt.Errorf("folder %s has no *.mjs", from)
	}
	for _, program := range programs {
		var content []byte
		if content, err = os.ReadFile(program); err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(program)), content, 0o600)
		}
		if err != nil {
			break
		}
	}
	return err
}
