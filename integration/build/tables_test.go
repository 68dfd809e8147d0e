package build_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
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

// services returns the code of both services and of pkg, without their tests.
func services(t *testing.T) string {
	t.Helper()
	var code strings.Builder
	for _, module := range []string{"publisher", "projector", "pkg"} {
		err := filepath.WalkDir(filepath.Join("../..", module), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			code.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return code.String()
}
