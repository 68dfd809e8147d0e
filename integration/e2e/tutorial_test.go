package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/integration/harness"
	"github.com/penstock-cdc/penstock/integration/sandbox/shop"
)

// tutorial is the part of docs/projections.md that authors follow.
func tutorial(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "projections.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n## A projection, with its test first\n")
	text, _, found := strings.Cut(rest, "\n# Reference\n")
	if !found {
		t.Fatal("docs/projections.md has no tutorial")
	}
	return text
}

// block is a fenced block, with the last file name in the paragraph before it.
var block = regexp.MustCompile("(?s)([^\n]*)\n\n```(yaml|console)\n(.*?)```")

var fileName = regexp.MustCompile("`(receipts/[a-z_]+\\.yaml)`")

// unsure is what differs from run to run.
var unsure = regexp.MustCompile(`in [0-9.]+s \(seed [0-9]+\)`)

// follow does what a text says in a folder: it writes its files, and runs its commands of the
// projector, each of which must print what the text shows.
func follow(t *testing.T, text, folder string, run func(args []string) string) (commands int) {
	t.Helper()
	for _, b := range block.FindAllStringSubmatch(text, -1) {
		if b[2] == "yaml" {
			names := fileName.FindAllStringSubmatch(b[1], -1)
			if names == nil {
				t.Fatalf("the paragraph before a block names no file: %s", b[1])
			}
			file := filepath.Join(folder, names[len(names)-1][1])
			if err := os.WriteFile(file, []byte(b[3]), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		for _, command := range strings.Split("\n"+b[3], "\n$ ")[1:] {
			line, want, _ := strings.Cut(strings.TrimSuffix(command, "\n"), "\n")
			words := strings.Fields(line)
			if words[0] != "projector" {
				continue
			}
			commands++
			got := unsure.ReplaceAllString(strings.TrimSpace(run(words[1:])), "in … (seed …)")
			if want = unsure.ReplaceAllString(want, "in … (seed …)"); want != "" && got != want {
				t.Errorf("%s prints\n%s\nand the page shows\n%s", line, got, want)
			}
		}
	}
	return commands
}

// TestTutorialRunsAsWritten holds that the files and commands of the tutorial do what it
// says: without a server first, and then on a pipeline that runs.
func TestTutorialRunsAsWritten(t *testing.T) {
	inParallel(t)
	text := tutorial(t)
	alone, running, found := strings.Cut(text, "\n### 6. Add it to a running pipeline\n")
	if !found {
		t.Fatal("the tutorial has no sixth step")
	}
	folder := t.TempDir()
	receipts := filepath.Join(folder, "receipts")
	if err := os.Mkdir(receipts, 0o750); err != nil {
		t.Fatal(err)
	}
	commands := follow(t, alone, folder, func(args []string) string {
		c := exec.CommandContext(t.Context(), suite.services.Projector, args...)
		c.Dir, c.Env = folder, []string{"HOME=" + folder}
		out, err := c.CombinedOutput()
		if c.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out)
	})
	if commands != 5 {
		t.Errorf("the first steps have %d commands, want 5", commands)
	}

	w := shop.New(2000, 3)
	s := newScenarioOn(t, w, harness.TopicOptions{})
	projections := filepath.Join(folder, "projections")
	if err := os.Mkdir(projections, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(projections, "shop.yaml"), w.Projections, 0o600); err != nil {
		t.Fatal(err)
	}
	s.SetEnv("PENSTOCK_PROJECTIONS=" + projections)
	s.start(1, 1)
	s.insert(w.Events...)
	s.awaitReadModels()
	// The test file goes along: a projector leaves it out.
	if err := os.CopyFS(projections, os.DirFS(receipts)); err != nil {
		t.Fatal(err)
	}
	for _, process := range s.Running() {
		if strings.HasPrefix(process.Name, "projector") {
			s.stopped(process)
		}
	}
	s.startProjector(0)
	s.ready()
	s.awaitLive(map[string]int64{"receipts": 1})
	printed := ""
	commands = follow(t, running, folder, func(args []string) string {
		stdout, _ := s.projectorCommand(0, append([]string{"--projections=" + projections}, args...)...)
		printed += stdout
		return stdout
	})
	if commands != 2 || !strings.Contains(printed, "receipts") {
		t.Errorf("%d commands on the running pipeline print\n%s", commands, printed)
	}
}
