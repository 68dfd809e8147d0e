package mutations

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/simulation/record"
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
	folder := t.TempDir()
	program := sync.OnceValue(func() string {
		program := filepath.Join(folder, "sound.test")
		compile(t, program)
		return program
	})
	var known sync.Map // by seed
	sound := func(seed int) bool {
		check, _ := known.LoadOrStore(seed, sync.OnceValue(func() bool {
			_, err := histories(t, program(), seed, seed)
			return err == nil
		}))
		return check.(func() bool)()
	}
	for _, m := range Table {
		if !matches.MatchString(m.Name) {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel() // one compiles while another one runs histories
			folder := t.TempDir()
			overlay := overlay(t, m, folder)
			if m.Blind != "" {
				keep(t, record.Mutation{Name: m.Name, Test: elsewhere(t, m, overlay)})
				return
			}
			program := filepath.Join(folder, "simulation.test")
			compile(t, program, "-overlay", overlay)
			seed, promise := hunt(t, m, program, sound)
			keep(t, record.Mutation{Name: m.Name, Seed: seed, Promise: promise})
		})
	}
}

// keep adds a trial to the record, if RECORD names its folder. The commit is that of the trial's end, so
// nobody may commit meanwhile.
func keep(t *testing.T, m record.Mutation) {
	t.Helper()
	folder := os.Getenv("RECORD")
	if folder == "" {
		return
	}
	var err error
	if m.Origin, err = record.Now(); err == nil {
		err = record.Append(folder, record.MutationsFile, &m)
	}
	if err != nil {
		t.Error(err)
	}
}

// overlay writes the file with the defect into folder, and returns the file that tells the
// compiler to take it.
func overlay(t *testing.T, m Mutation, folder string) string {
	t.Helper()
	file, err := filepath.Abs(filepath.Join(top, m.File))
	if err != nil {
		t.Fatal(err)
	}
	defect, overlay := filepath.Join(folder, "defect.go"), filepath.Join(folder, "overlay.json")
	replaces, err := json.Marshal(map[string]map[string]string{"Replace": {file: defect}})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{defect: mutated(t, m), overlay: replaces} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return overlay
}

// compile compiles the simulation.
func compile(t *testing.T, program string, args ...string) {
	t.Helper()
	// Without debug information the linker needs half the time.
	args = slices.Concat([]string{"test", "-c", "-vet=off", "-tags", "simulation", "-ldflags=-checklinkname=0 -s -w", "-o", program}, args, []string{".."})
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("the simulation does not compile: %v\n%s", err, out)
	}
}

// elsewhere checks that the test that the table names fails with the defect, and returns its
// name; empty if it does not.
func elsewhere(t *testing.T, m Mutation, overlay string) string {
	t.Helper()
	if m.Test == "" {
		t.Errorf("no test finds it: %s", m.Blind)
		return ""
	}
	folder, name, _ := strings.Cut(m.Test, " ")
	run := exec.CommandContext(t.Context(), "go", "test", "-count", "1", "-vet=off", "-timeout", "5m", "-overlay", overlay, "-run", "^"+name+"$", "./"+folder)
	run.Dir = top
	out, err := run.CombinedOutput()
	// A test can also panic. One that does not end has found nothing.
	if err == nil || !strings.Contains(string(out), name) || strings.Contains(string(out), "[build failed]") || strings.Contains(string(out), "panic: test timed out") {
		t.Errorf("%s does not find it: %v\n%s", m.Test, err, out)
		return ""
	}
	t.Logf("found by %s; histories are blind for it: %s", m.Test, m.Blind)
	return m.Test
}

// Lines of a failed history: its seed, and a promise that is broken.
var (
	seed   = regexp.MustCompile(`(?m)^\s+\S+:\d+: seed (\d+): `)
	breach = regexp.MustCompile(`(?m)^\s+([A-Z].*):$`)
)

// histories runs histories until one fails, and returns what it prints. An error says that one has failed.
func histories(t *testing.T, program string, first, last int) (string, error) {
	t.Helper()
	run := exec.CommandContext(t.Context(), program, "-test.run", "TestHistories", "-test.failfast", "-test.timeout", "0")
	run.Dir = ".."
	run.Env = append(os.Environ(), fmt.Sprintf("SEEDS=%d..%d", first, last), "TIMES=1", "GOMEMLIMIT=2GiB", "RECORD=", "GOGC=1600", "TMPDIR="+t.TempDir())
	out, err := run.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), err
}

// hunt looks for the defect with program. It returns the seed of the history that found it, 0
// if it is not known, and the promise that it broke, which is empty if none found it. A history
// does not count if it fails without the defect too, or does not fail again with it.
func hunt(t *testing.T, m Mutation, program string, sound func(seed int) bool) (found int, promise string) {
	t.Helper()
	const hangs = "a history did not end"
	began := time.Now()
	search := func(first, last int) bool {
		for first <= last {
			out, err := histories(t, program, first, last)
			if err == nil {
				return false
			}
			failed := seed.FindAllStringSubmatch(out, -1)
			if failed == nil {
				t.Fatalf("the program has failed, but no history:\n%s", out[max(0, len(out)-2000):])
			}
			for _, f := range failed {
				n, _ := strconv.Atoi(f[1])
				first = max(first, n+1)
				if !sound(n) || !again(t, program, n) {
					t.Logf("seed %d fails without the defect too, or not again with it", n)
					continue
				}
				found, promise = n, hangs
				if b := breach.FindStringSubmatch(out); b != nil {
					promise = b[1]
				}
				t.Logf("found after %v by seed %d: %s", time.Since(began).Round(time.Second), n, promise)
				return true
			}
		}
		return false
	}
	if m.Found > 0 && search(m.Found, m.Found) {
		return found, promise
	}
	if !search(1, Most) {
		t.Errorf("not found in %d histories", Most)
	}
	return found, promise
}

// again reports whether a history fails again in three runs.
func again(t *testing.T, program string, n int) bool {
	t.Helper()
	for range 3 {
		if out, err := histories(t, program, n, n); err != nil && seed.MatchString(out) {
			return true
		}
	}
	return false
}
