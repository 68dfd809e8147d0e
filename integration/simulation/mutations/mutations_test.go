package mutations

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// top is the top of the repository.
const top = "../../.."

// mutated returns the file of a mutation with the defect in it.
func mutated(t *testing.T, m Mutation) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, m.File))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), m.Old); n != 1 {
		t.Fatalf("%s has the text of the defect %d times: change Old in the table as the code has changed\n%s", m.File, n, m.Old)
	}
	return []byte(strings.Replace(string(text), m.Old, m.New, 1))
}

// TestTable checks that each defect still fits its file.
func TestTable(t *testing.T) {
	for _, m := range Table {
		t.Run(m.Name, func(t *testing.T) { mutated(t, m) })
	}
}

// TestMutationsAreFound runs histories with each defect until one of them fails. It compiles
// the services for each, so it runs on demand only: make mutations.
func TestMutationsAreFound(t *testing.T) {
	wanted := os.Getenv("MUTATIONS")
	if wanted == "" {
		t.Skip("runs for about a minute for each defect: make mutations")
	}
	matches, err := regexp.Compile(wanted)
	if err != nil {
		t.Fatalf("MUTATIONS: %v", err)
	}
	for _, m := range Table {
		if matches.MatchString(m.Name) {
			t.Run(m.Name, func(t *testing.T) { hunt(t, m) })
		}
	}
}

// breach is a line of a failed history that names a promise.
var breach = regexp.MustCompile(`(?m)^\s+(G\d.*):$`)

// hunt looks for the defect.
func hunt(t *testing.T, m Mutation) {
	t.Helper()
	folder := t.TempDir()
	defect, program, overlay := filepath.Join(folder, "defect.go"), filepath.Join(folder, "simulation.test"), filepath.Join(folder, "overlay.json")
	file, err := filepath.Abs(filepath.Join(top, m.File))
	if err != nil {
		t.Fatal(err)
	}
	replaces, err := json.Marshal(map[string]map[string]string{"Replace": {file: defect}})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{defect: mutated(t, m), overlay: replaces} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	compile := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags", "simulation", "-ldflags=-checklinkname=0", "-overlay", overlay, "-o", program, "..")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("the defect does not compile: %v\n%s", err, out)
	}
	seeds := m.Seeds
	if seeds == 0 {
		seeds = 40
	}
	began := time.Now()
	run := exec.CommandContext(t.Context(), program, "-test.run", "TestHistories", "-test.failfast", "-test.timeout", "0")
	run.Dir = ".."
	run.Env = append(os.Environ(), fmt.Sprintf("SEEDS=1..%d", seeds), "GOGC=400", "TMPDIR="+folder)
	out, err := run.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	found, why := err != nil, ""
	if b := breach.FindSubmatch(out); b != nil {
		why = string(b[1])
	}
	switch {
	case found && m.Blind == "":
		t.Logf("found after %v: %s", time.Since(began).Round(time.Second), why)
	case found:
		t.Errorf("found (%s), and the table says that histories are blind for it", why)
	case m.Blind == "":
		t.Errorf("not found in %d histories", seeds)
	default:
		t.Logf("not found: %s", m.Blind)
	}
	if found && why == "" {
		t.Logf("%s", out[max(0, len(out)-4000):])
	}
}
