package build_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	conditionInCode = regexp.MustCompile(`Name: +"([a-z-]+)", [^\n]*State: +(?:health\.)?(Degraded|NotReady)`)
	readyCheck      = regexp.MustCompile(`\.Ready\("([a-z-]+)"`)
	conditionRow    = regexp.MustCompile("(?m)^\\| (`[^|]*`) \\| (degraded|not ready) \\|")
	inBackquotes    = regexp.MustCompile("`([^`]+)`")
)

// TestEachConditionIsInTheTable compares the table of conditions in docs/operations.md with the
// conditions in the services' code.
func TestEachConditionIsInTheTable(t *testing.T) {
	t.Parallel()
	code := services(t)
	verdicts := map[string]string{}
	for _, found := range conditionInCode.FindAllStringSubmatch(code, -1) {
		verdicts[found[1]] = map[string]string{"Degraded": "degraded", "NotReady": "not ready"}[found[2]]
	}
	for _, found := range readyCheck.FindAllStringSubmatch(code, -1) {
		verdicts[found[1]] = "not ready"
	}
	if len(verdicts) < 20 {
		t.Fatalf("the code has %d conditions: the patterns of this test do not match it", len(verdicts))
	}
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]string{}
	for _, row := range conditionRow.FindAllStringSubmatch(string(page), -1) {
		for _, name := range inBackquotes.FindAllStringSubmatch(row[1], -1) {
			table[name[1]] = row[2]
		}
	}
	for name, verdict := range verdicts {
		if table[name] != verdict {
			t.Errorf("%s is %s in the code, and %q in the table", name, verdict, table[name])
		}
	}
	for name := range table {
		if !strings.Contains(code, `"`+name+`"`) {
			t.Errorf("%s is in the table, and not in the code", name)
		}
	}
}

var setting = regexp.MustCompile(`PENSTOCK_[A-Z][A-Z_]*[A-Z]`)

// TestPagesNameSettingsThatExist finds settings in the docs and the chart that the code has not.
// Only the decisions of former times may name some.
func TestPagesNameSettingsThatExist(t *testing.T) {
	t.Parallel()
	known := make(map[string]bool)
	for _, root := range []string{"publisher", "projector", "pkg", "integration", "hack"} {
		for _, text := range files(t, root, ".go", ".sh") {
			for _, name := range setting.FindAllString(text, -1) {
				known[name] = true
			}
		}
	}
	for _, root := range []string{"docs", "charts", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"} {
		for path, text := range files(t, root, ".md", ".yaml", ".tpl") {
			for _, name := range setting.FindAllString(text, -1) {
				if !known[name] && !strings.Contains(path, "/adr/") {
					t.Errorf("%s names %s, which no code has", path, name)
				}
			}
		}
	}
}

// files reads the files below root, a path from the top of the repository, by their paths.
func files(t *testing.T, root string, extensions ...string) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	err := filepath.WalkDir(filepath.Join("../..", root), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !slices.Contains(extensions, filepath.Ext(path)) {
			return err
		}
		text, err := os.ReadFile(path)
		texts[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// services returns the code of both services and of pkg, without their tests.
func services(t *testing.T) string {
	t.Helper()
	var code strings.Builder
	for _, module := range []string{"publisher", "projector", "pkg"} {
		for path, text := range files(t, module, ".go") {
			if !strings.HasSuffix(path, "_test.go") {
				code.WriteString(text)
			}
		}
	}
	return code.String()
}
