package operate

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The pages whose sections have whole files of projections with their tests.
const (
	cookbook  = "../../../docs/cookbook.md"
	viewsPage = "../../../docs/views.md"
)

// recipe is one section of such a page.
type recipe struct {
	title              string
	projections, tests string
	console            []string
}

// recipes reads the sections of a page.
func recipes(t *testing.T, path string) (page string, all []recipe) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")
	for _, section := range strings.Split("\n"+string(text), "\n## ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		r := recipe{title: title}
		for _, block := range blocks.FindAllStringSubmatch(body, -1) {
			tests := strings.Contains("\n"+block[2], "\ntests:\n")
			switch {
			case block[1] == "console":
				r.console = append(r.console, block[2])
			case block[1] == "js", block[1] == "go": // for the shell of MongoDB, and for programs
			case block[1] != "yaml" || r.tests != "" || tests && r.projections == "":
				t.Errorf("%s has a block that is neither its projections nor their tests:\n%s", title, block[2])
			case tests:
				r.tests = block[2]
			case r.projections == "":
				r.projections = block[2]
			default:
				t.Errorf("%s has two blocks of projections", title)
			}
		}
		all = append(all, r)
	}
	return string(text), all
}

// TestCookbook runs the tests of every recipe.
func TestCookbook(t *testing.T) {
	t.Parallel()
	page, all := recipes(t, cookbook)
	for _, r := range all {
		if !strings.Contains(page, "| ["+r.title+"](#"+strings.ReplaceAll(strings.ToLower(r.title), " ", "-")+") |") {
			t.Errorf("%s is not in the table of recipes", r.title)
		}
	}
	runRecipes(t, all, 14)
}

// TestPageOfViews runs the tests and the commands of the page about views.
func TestPageOfViews(t *testing.T) {
	t.Parallel()
	_, all := recipes(t, viewsPage)
	runRecipes(t, all, 1)
	for _, r := range all {
		for _, block := range r.console {
			line, output, _ := strings.Cut(block, "\n")
			if stdout, stderr, err := runLine(t, nil, strings.Fields(strings.TrimPrefix(line, "$ projector "))...); err != nil || stdout != output {
				t.Errorf("%s prints\n%s\n%s%v", line, stdout, stderr, err)
			}
		}
	}
}

// runRecipes runs the tests of recipes, at least so many. They must fail without the recipe's
// handlers.
func runRecipes(t *testing.T, all []recipe, atLeast int) {
	t.Helper()
	firstRules := regexp.MustCompile(`(?ms)^( +)on:\n.*`)
	ran := 0
	for _, r := range all {
		if r.projections == "" {
			continue
		}
		ran++
		t.Run(r.title, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write := func(projections string) {
				t.Helper()
				writeFiles(t, dir, map[string]string{"recipe.yaml": projections, "recipe_test.yaml": r.tests})
			}
			write(r.projections)
			if stdout, stderr, err := runLine(t, nil, "check", filepath.Join(dir, "recipe.yaml")); err != nil {
				t.Errorf("projector check: %v\n%s%s", err, stdout, stderr)
			}
			if stdout, stderr, err := runLine(t, nil, "test", dir); err != nil {
				t.Errorf("projector test: %v\n%s%s", err, stdout, stderr)
			}
			write(firstRules.ReplaceAllString(r.projections, "${1}on:\n$1  Nothing: {set: {nothing: \"1\"}}\n"))
			if stdout, _, err := runLine(t, nil, "test", dir); err == nil {
				t.Errorf("the tests pass without the recipe:\n%s", stdout)
			}
		})
	}
	if ran < atLeast {
		t.Errorf("the page has %d recipes", ran)
	}
}
