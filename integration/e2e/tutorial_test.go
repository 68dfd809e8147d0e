package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The tutorial's repository, and the command that it leaves running.
const (
	tutorialRepository = "https://github.com/penstock-cdc/penstock.git"
	tutorialDemo       = "make demo STAY=yes"
)

// tutorialTimeout bounds each wait for a line: building the clone takes longest.
const tutorialTimeout = 6 * time.Minute

// TestTutorialRunsAsWritten follows docs/tutorial.md from the clone to the verified read
// model: it runs each of its commands in a shell, writes each of its files, and compares
// what is printed with what the page shows. Only two things differ from a reader's machine:
// git clones the present tree, and the shop is smaller.
func TestTutorialRunsAsWritten(t *testing.T) {
	needsProcesses(t)
	inParallel(t)
	needsStandIns(t, "the demo runs on the stand-ins only")
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "tutorial.md"))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	environment := append(os.Environ(),
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url."+commitTree(t)+".insteadOf", "GIT_CONFIG_VALUE_0="+tutorialRepository,
		"DEMO_EVENTS=2000", "DEMO_LOAD_TIME=2s")
	shell := startShell(t, folder, environment)
	var demo *demoProcess
	commands := 0
	for _, block := range pageBlock.FindAllStringSubmatch(string(page), -1) {
		switch before, kind, text := block[1], block[2], block[3]; kind {
		case "yaml":
			names := pageFile.FindAllStringSubmatch(before, -1)
			if names == nil {
				t.Fatalf("the paragraph before a block names no file: %s", before)
			}
			file := filepath.Join(folder, "penstock", names[len(names)-1][1])
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		case "text":
			if demo == nil {
				t.Fatalf("the page shows lines of the demo before it runs:\n%s", text)
			}
			for line := range strings.Lines(text) {
				demo.await(t, strings.TrimSpace(line))
			}
		case "console":
			for _, command := range strings.Split("\n"+text, "\n$ ")[1:] {
				line, want, _ := strings.Cut(strings.TrimSuffix(command, "\n"), "\n")
				commands++
				if line == tutorialDemo {
					demo = startDemo(t, filepath.Join(folder, "penstock"), environment, line)
					continue
				}
				got := shell.run(t, line)
				if want != "" && !shown(want).MatchString(strings.TrimSpace(got)) {
					t.Errorf("%s prints\n%s\nand the page shows\n%s", line, got, want)
				}
			}
		}
	}
	if demo == nil || commands < 10 {
		t.Fatalf("the page has %d commands, and %q among them: %t", commands, tutorialDemo, demo != nil)
	}
	demo.interrupt(t)
}

// pageBlock matches a fenced block with the line before it.
var pageBlock = regexp.MustCompile("(?s)([^\n]*)\n\n```(yaml|console|text)\n(.*?)```")

// pageFile matches the name of a file that the reader must write.
var pageFile = regexp.MustCompile("`(receipts/[a-z_]+\\.yaml)`")

// duration matches the values that differ from run to run.
var duration = regexp.MustCompile(`in [0-9]+\\\.[0-9]+s`)

// shown returns an expression for an output on the page. A line of "…" stands for any
// lines, and "…" within a line for any text.
func shown(text string) *regexp.Regexp {
	pattern := duration.ReplaceAllLiteralString(regexp.QuoteMeta(text), `in [0-9.]+s`)
	pattern = strings.ReplaceAll(pattern, "…\n", `(?s:.*?)`)
	return regexp.MustCompile(`\A` + strings.ReplaceAll(pattern, "…", `.*`) + `\z`)
}

// commitTree commits the files of the present tree to a repository, and returns its path.
func commitTree(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	repository := t.TempDir()
	git := func(args ...string) string {
		c := exec.CommandContext(t.Context(), "git", args...)
		c.Dir = repository
		out, err := c.Output()
		if err != nil {
			t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	git("init", "--quiet")
	for name := range strings.SplitSeq(git("-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00") {
		info, err := os.Lstat(filepath.Join(root, name))
		if name == "" || err != nil || !info.Mode().IsRegular() {
			continue
		}
		content, err := os.ReadFile(filepath.Join(root, name))
		if err == nil {
			err = os.MkdirAll(filepath.Join(repository, filepath.Dir(name)), 0o750)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(repository, name), content, info.Mode().Perm())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	git("add", "--all")
	git("-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "--quiet", "--message=tree")
	return repository
}

// tutorialShell is a shell that keeps its folder and its variables between commands.
type tutorialShell struct {
	in  io.Writer
	out *bufio.Reader
}

// startShell starts a shell that ends with the test.
func startShell(t *testing.T, folder string, environment []string) *tutorialShell {
	t.Helper()
	c := exec.CommandContext(t.Context(), "sh")
	c.Dir, c.Env = folder, environment
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = c.Stdout
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = c.Wait()
	})
	return &tutorialShell{in: in, out: bufio.NewReader(out)}
}

// run runs a command and returns what it printed.
func (s *tutorialShell) run(t *testing.T, command string) string {
	t.Helper()
	const end = "--end of the command--"
	if _, err := fmt.Fprintf(s.in, "%s\necho; echo '%s'\n", command, end); err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	var printed strings.Builder
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			t.Fatalf("%s: the shell ended: %v\n%s", command, err, printed.String())
		}
		if strings.TrimSpace(line) == end {
			return printed.String()
		}
		// The log of a command goes to stderr: JSON here, and other text on a terminal.
		if !strings.HasPrefix(line, `{"level":`) {
			printed.WriteString(line)
		}
	}
}

// demoProcess is the demo in the first terminal.
type demoProcess struct {
	command *exec.Cmd
	lines   chan string
	printed []string
}

// startDemo starts the demo in a process group of its own, as a terminal does.
func startDemo(t *testing.T, folder string, environment []string, line string) *demoProcess {
	t.Helper()
	words := strings.Fields(line)
	c := exec.CommandContext(t.Context(), words[0], words[1:]...)
	c.Dir, c.Env = folder, environment
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = c.Stdout
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	demo := &demoProcess{command: c, lines: make(chan string)}
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() {
		defer close(done)
		defer close(demo.lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			select {
			case demo.lines <- scanner.Text():
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		_ = c.Cancel()
		<-done
		_ = c.Wait()
	})
	return demo
}

// await waits until the demo prints the line.
func (d *demoProcess) await(t *testing.T, want string) {
	t.Helper()
	timeout := time.After(tutorialTimeout)
	for {
		select {
		case line, open := <-d.lines:
			if !open {
				t.Fatalf("the demo ended without the line %q:\n%s", want, strings.Join(d.printed, "\n"))
			}
			d.printed = append(d.printed, line)
			if strings.TrimSpace(line) == want {
				return
			}
		case <-timeout:
			t.Fatalf("the demo did not print %q within %s:\n%s", want, tutorialTimeout, strings.Join(d.printed, "\n"))
		}
	}
}

// interrupt presses Ctrl-C, and waits until the demo has stopped the services cleanly.
func (d *demoProcess) interrupt(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(-d.command.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	d.await(t, "the pipeline has stopped")
}
