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
	pages = append(pages, "../../README.md", "../../UPGRADING.md", "../../ARCHITECTURE.md", "../../charts/penstock/RUNBOOK.md", "../../charts/penstock/templates/NOTES.txt")
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
