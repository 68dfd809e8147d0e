package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

//go:embed javascript/*.mjs javascript/package.json javascript/package-lock.json
//go:embed python/*.py
var scenarios embed.FS

// client is another SDK with this project's scenarios. They report their results in the
// format of go test -json.
type client struct {
	name string
	want int // how many scenarios must pass
	// needs returns why the client cannot run on this machine; empty if it can.
	needs func(ctx context.Context) string
	// commands run in the folder of the scenarios, one after the other. The last one
	// runs the scenarios.
	commands [][]string
	// trust is the variable that names the file of certificates to trust.
	trust string
}

// clients are the official SDKs other than Go's, and rhea, an AMQP library without Azure's
// code.
var clients = []client{
	{
		name:  javascript,
		want:  63,
		needs: needsNode,
		commands: [][]string{
			{"npm", "ci", "--no-audit", "--no-fund", "--omit=optional"},
			{"node", "--test", "--test-concurrency=6", "--test-reporter=./reporter.mjs"},
		},
		trust: "NODE_EXTRA_CA_CERTS",
	},
	{
		name:     "python",
		want:     48,
		needs:    needsPython,
		commands: [][]string{{python, "run.py"}},
		trust:    "REQUESTS_CA_BUNDLE",
	},
}

// javascript is the name of the client whose scenarios --with extends.
const javascript = "javascript"

// python is Debian's interpreter, because Debian's packages have the SDK.
const python = "/usr/bin/python3"

func needsNode(context.Context) string {
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			return tool + " is not installed: install Node.js 20 or later"
		}
	}

	return ""
}

func needsPython(ctx context.Context) string {
	if err := exec.CommandContext(ctx, python, "-c", "import azure.servicebus, uamqp").Run(); err != nil {
		return "the SDK is not installed: apt-get install python3-azure"
	}

	return ""
}

// run runs the client's scenarios.
func (c client) run(ctx context.Context, dir string, env []string, o options) *table {
	t := &table{name: c.name, kind: "scenarios", want: c.want}

	if t.absent = c.needs(ctx); t.absent != "" {
		return t
	}

	folder := filepath.Join(dir, c.name)
	if t.err = c.unpack(folder); t.err != nil {
		return t
	}

	if o.With != "" && c.name == javascript {
		if t.err = copyScenarios(o.With, folder); t.err != nil {
			return t
		}
	}

	var output bytes.Buffer

	for _, command := range c.commands {
		output.Reset()

		if t.err = c.command(ctx, folder, env, command, &output); t.err != nil {
			break
		}
	}

	results, loose := readResults(&output)
	if len(results) == 0 {
		t.err = errors.Join(t.err, fmt.Errorf("no scenario of %s has run:\n%s", c.name, loose))

		return t
	}

	// A failed scenario makes the command fail, but the table shows that.
	if ctx.Err() == nil {
		t.err = nil
	}

	only := regexp.MustCompile(o.Run)

	for _, r := range results {
		if only.MatchString(r.name) {
			r.reason = reason(r)
			t.results = append(t.results, r)
		}
	}

	if o.With != "" && c.name == javascript {
		t.want = max(t.want+1, len(t.results))
	}

	slices.SortFunc(t.results, func(a, b *result) int { return strings.Compare(a.name, b.name) })

	return t
}

// command runs a command in the folder. Its error has the output.
func (c client) command(ctx context.Context, folder string, env, command []string, output *bytes.Buffer) error {
	var stderr bytes.Buffer

	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = output, &stderr, drain

	for _, e := range env {
		if file, found := strings.CutPrefix(e, "SSL_CERT_FILE="); found {
			cmd.Env = append(cmd.Env, c.trust+"="+file)
		}
	}

	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}

		return fmt.Errorf("run %s for %s: %w\n%s", strings.Join(command, " "), c.name, err, stderr.String())
	}

	return nil
}

// unpack writes the scenarios to the folder.
func (c client) unpack(folder string) error {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return fmt.Errorf("unpack the scenarios of %s: %w", c.name, err)
	}

	entries, err := scenarios.ReadDir(c.name)
	if err != nil {
		return fmt.Errorf("unpack the scenarios of %s: %w", c.name, err)
	}

	for _, e := range entries {
		content, err := scenarios.ReadFile(c.name + "/" + e.Name())
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, e.Name()), content, 0o600)
		}

		if err != nil {
			return fmt.Errorf("unpack the scenarios of %s: %w", c.name, err)
		}
	}

	return nil
}

// copyScenarios copies the scenarios of a folder beside those of the JavaScript SDK.
func copyScenarios(from, to string) error {
	files, err := filepath.Glob(filepath.Join(from, "*.*s"))
	if err == nil && len(files) == 0 {
		err = errors.New("there is no *.mjs and no *.ts")
	}

	for _, file := range files {
		var content []byte

		if content, err = os.ReadFile(file); err == nil {
			err = os.WriteFile(filepath.Join(to, filepath.Base(file)), content, 0o600)
		}

		if err != nil {
			break
		}
	}

	if err != nil {
		return fmt.Errorf("copy the scenarios of %s: %w", from, err)
	}

	return nil
}
