package e2e_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	inline  = regexp.MustCompile("`([^`\n]+)`")
	called  = regexp.MustCompile(`(?:^|[\s/])(projector|publisher) ([a-z].*)$`)
	option  = regexp.MustCompile(`^--[a-z-]+`)
	verb    = regexp.MustCompile(`^[a-z-]+$`)
	helpful = regexp.MustCompile(`^(\$ )?(kubectl|az|helm|/?projector|/?publisher) |^(db|sh|rs)\.`)
)

// codeOf returns the pieces of code of a page: inline code, and the lines of consoles.
func codeOf(page string) []string {
	var code []string
	for _, found := range inline.FindAllStringSubmatch(page, -1) {
		code = append(code, found[1])
	}
	for line := range strings.Lines(page) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "$ ") {
			code = append(code, line)
		}
	}
	return code
}

// TestPagesNameCommandsThatExist checks that every command of the two programs on a page
// exists, with its flags. An operator types it in the middle of the night.
func TestPagesNameCommandsThatExist(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages = append(pages, "../../README.md", "../../ARCHITECTURE.md", "../../charts/penstock/RUNBOOK.md", "../../charts/penstock/templates/NOTES.txt")
	programs := map[string]string{"projector": suite.services.Projector, "publisher": suite.services.Publisher}
	helps := make(map[string]string) // by command; empty if there is no such command
	help := func(program string, path []string) string {
		key := strings.Join(append([]string{program}, path...), " ")
		if _, asked := helps[key]; !asked {
			status, stdout, _ := command(t, programs[program], nil, append(slices.Clone(path), "--help")...)
			if status != 0 || !strings.HasPrefix(stdout, "Usage: "+key) {
				stdout = ""
			}
			helps[key] = stdout
		}
		return helps[key]
	}
	checked := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range codeOf(string(text)) {
			found := called.FindStringSubmatch(code)
			if found == nil {
				continue
			}
			words := strings.Fields(found[2])
			path := words[:0:0]
			for len(path) < len(words) && verb.MatchString(words[len(path)]) && help(found[1], words[:len(path)+1]) != "" {
				path = words[:len(path)+1]
			}
			usage := help(found[1], path)
			if len(path) == 0 || len(path) < len(words) && verb.MatchString(words[len(path)]) && strings.Contains(usage, "\nCommands:") {
				t.Errorf("%s: %s: there is no such command", page, code)
				continue
			}
			for _, w := range words {
				if name := option.FindString(w); name != "" && !strings.Contains(usage+help(found[1], nil), name) {
					t.Errorf("%s: %s: the command has no flag %s", page, code, name)
				}
			}
			checked++
		}
	}
	if checked < 100 {
		t.Errorf("%d commands were found in the pages: are they still printed in the same way?", checked)
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	fenced  = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	path    = regexp.MustCompile("`((?:pkg|publisher|projector|integration)/[a-zA-Z0-9_/.-]+)`")
)

// anchorsOf returns the anchors of a page's headings, as GitHub makes them.
func anchorsOf(page string) []string {
	var anchors []string
	for _, found := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		text := dropped.ReplaceAllString(strings.ToLower(found[1]), "")
		anchors = append(anchors, strings.ReplaceAll(text, " ", "-"))
	}
	return anchors
}

// TestPagesLinkToWhatExists checks the links between pages, with their anchors, and the files
// that ARCHITECTURE.md names: a reader finds each mechanism by them.
func TestPagesLinkToWhatExists(t *testing.T) {
	t.Parallel()
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md", "charts/penstock/*.md", "integration/*/README.md", "integration/examples/*/README.md"} {
		found, err := filepath.Glob("../../" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	links := 0
	for _, page := range pages {
		for _, found := range link.FindAllStringSubmatch(inline.ReplaceAllString(fenced.ReplaceAllString(read(page), ""), ""), -1) {
			target, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, ":") {
				continue // another site
			}
			links++
			name := page
			if target != "" {
				name = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(name); err != nil {
				t.Errorf("%s links to %s: %v", page, found[1], err)
			} else if anchor != "" && !slices.Contains(anchorsOf(read(name)), anchor) {
				t.Errorf("%s links to %s, which has no such heading", page, found[1])
			}
		}
	}
	files := path.FindAllStringSubmatch(read("../../ARCHITECTURE.md"), -1)
	for _, found := range files {
		if _, err := os.Stat("../../" + found[1]); err != nil {
			t.Errorf("ARCHITECTURE.md names %s: %v", found[1], err)
		}
	}
	if links < 100 || len(files) < 60 {
		t.Errorf("the pages have %d links, and ARCHITECTURE.md names %d files: are they still written in the same way?", links, len(files))
	}
}

// TestEveryAlertHasACommandThatHelps checks that every entry of the runbook has a command
// to begin with. charts/verify.sh compares the entries with the alerts.
func TestEveryAlertHasACommandThatHelps(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../charts/penstock/RUNBOOK.md")
	if err != nil {
		t.Fatal(err)
	}
	entries := strings.Split(string(page), "\n## ")[1:]
	if len(entries) < 30 {
		t.Fatalf("the runbook has %d entries", len(entries))
	}
	for _, entry := range entries {
		if !slices.ContainsFunc(codeOf(entry), helpful.MatchString) {
			name, _, _ := strings.Cut(entry, "\n")
			t.Errorf("%s has no command", name)
		}
	}
}
