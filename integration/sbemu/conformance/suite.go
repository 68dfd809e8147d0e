package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const sdk = "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

// copySDK copies the SDK's module in the version that this module uses.
func copySDK(ctx context.Context, to string) error {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", sdk).Output()
	if err != nil {
		return fmt.Errorf("find the SDK's module: %w", err)
	}

	from := strings.TrimSpace(string(out))
	if from == "" {
		return errors.New("the SDK's module is not in the module cache: run go mod download")
	}

	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		rel, err := filepath.Rel(from, path)
		if err != nil {
			return fmt.Errorf("copy the SDK: %w", err)
		}

		target := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(target, 0o750)
		}

		content, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("copy the SDK: %w", err)
		}

		return os.WriteFile(target, content, 0o600)
	})
}

// suite is a package of the SDK with live tests.
type suite struct {
	name string
	pkg  string
	want int // how many of the live tests must pass
}

// event is a line of the output of go test -json.
type event struct {
	Action string
	Test   string
	Output string
}

// result is the result of a test.
type result struct {
	name   string
	action string // pass, fail or skip; "": it did not end
	reason string
	output []string
}

// drain is how long to wait for the output of a stopped go command. The tests that it runs
// may keep the output open.
const drain = 5 * time.Second

// goTest runs tests of the suite and returns the result of each. An error means that there
// are no results.
func (s suite) goTest(ctx context.Context, module string, env []string, args ...string) (map[string]*result, error) {
	var stdout, stderr bytes.Buffer

	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json", "-count=1"}, append(args, s.pkg)...)...)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), append([]string{"GOWORK=off", "GOFLAGS=-mod=mod"}, env...)...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, drain

	err := cmd.Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}

	results, loose := readResults(&stdout)

	// Failed tests are no error here, but a run without any results is.
	if err != nil && len(results) == 0 {
		return nil, fmt.Errorf("run tests of %s: %w\n%s%s", s.name, err, loose, stderr.String())
	}

	return results, nil
}

// readResults reads the output of go test -json: the result of each test, and the output
// that belongs to no test.
func readResults(output *bytes.Buffer) (map[string]*result, string) {
	var loose strings.Builder

	results := make(map[string]*result)

	for line := range bytes.Lines(output.Bytes()) {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			loose.Write(line)

			continue
		}

		if e.Test == "" {
			loose.WriteString(e.Output)

			continue
		}

		top, _, sub := strings.Cut(e.Test, "/")

		r := results[top]
		if r == nil {
			r = &result{name: top}
			results[top] = r
		}

		switch e.Action {
		case "output":
			r.output = append(r.output, e.Output)
		case "pass", "fail", "skip":
			if !sub {
				r.action = e.Action
			}
		}
	}

	return results, loose.String()
}

// liveTests returns the names of the suite's live tests: those that are skipped when
// recordings are replayed.
func (s suite) liveTests(ctx context.Context, module string) ([]string, error) {
	results, err := s.goTest(ctx, module, []string{"AZURE_RECORD_MODE=playback"})
	if err != nil {
		return nil, err
	}

	var names []string

	for name, r := range results {
		if r.action == "skip" {
			names = append(names, name)
		}
	}

	slices.Sort(names)

	return names, nil
}

// run runs the suite's live tests.
func (s suite) run(ctx context.Context, module string, env []string, o options) *table {
	t := &table{name: s.name, kind: "live tests", want: s.want}

	live, err := s.liveTests(ctx, module)
	if err != nil {
		t.err = err

		return t
	}

	only := regexp.MustCompile(o.Run)
	live = slices.DeleteFunc(live, func(name string) bool { return !only.MatchString(name) })

	// A test that panics ends all others, so tests that did not end run again.
	for left := live; len(left) > 0; {
		results, err := s.goTest(ctx, module, env, "-timeout", timeLeft(ctx).String(), "-run", "^("+strings.Join(left, "|")+")$")
		t.err = err

		var again []string

		for _, name := range left {
			if r := results[name]; r != nil && r.action != "" {
				r.reason = reason(r)
				t.results = append(t.results, r)
			} else {
				again = append(again, name)
			}
		}

		if len(again) == len(left) || ctx.Err() != nil {
			for _, name := range again {
				t.results = append(t.results, &result{name: name, reason: "did not end"})
			}

			break
		}

		left = again
	}

	slices.SortFunc(t.results, func(a, b *result) int { return strings.Compare(a.name, b.name) })

	return t
}

// timeLeft is the timeout of tests: a little less than the remaining time, so that a test
// that hangs is named and does not outlive this process.
func timeLeft(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}

	return max(time.Until(deadline)-2*drain, time.Second).Round(time.Second)
}
