package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// author is a folder of projections and the commands that its author runs in it.
type author struct {
	t      *testing.T
	folder string
}

func (a author) write(name, text string) {
	a.t.Helper()
	if err := os.WriteFile(filepath.Join(a.folder, name), []byte(text), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// projector runs a command in the folder without any settings. It expects the exit code,
// and each of the texts in one of the two outputs.
func (a author) projector(code int, args []string, says ...string) {
	a.t.Helper()
	c := exec.CommandContext(a.t.Context(), suite.services.Projector, args...)
	c.Dir, c.Env = a.folder, []string{"HOME=" + a.folder}
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		a.t.Fatal(err)
	}
	ran.add(suite.services.Projector, args, c.ProcessState.ExitCode())
	if got := c.ProcessState.ExitCode(); got != code {
		a.t.Errorf("projector %s: status %d, want %d\n%s", strings.Join(args, " "), got, code, out)
	}
	for _, text := range says {
		if !strings.Contains(string(out), text) {
			a.t.Errorf("projector %s does not say %q:\n%s", strings.Join(args, " "), text, out)
		}
	}
}

const authorsTest = `
tests:
  - name: a counter adds its numbers up
    aggregateId: c-1
    given:
      - {eventType: CountedEvent, payload: {n: 2}}
      - {eventType: CountedEvent, payload: {n: 3}}
    expect:
      counters: {c-1: {n: 5}}
`

const authorsProjection = `
events:
  CountedEvent:
    type: object
    properties: {n: {type: integer}}
projections:
  - name: counters
    collection: counterReadModels
    on:
      CountedEvent:
        inc: {n: payload.n}
`

// TestAuthorGoesFromAFailingTestToAGreenOne checks that the commands for authors need no
// settings and no server, and checks their exit codes and outputs.
func TestAuthorGoesFromAFailingTestToAGreenOne(t *testing.T) {
	needsProcesses(t)
	t.Parallel()
	a := author{t, t.TempDir()}
	a.projector(0, []string{"schema"}, `"$schema": "http://json-schema.org/draft-07/schema#"`, `"addToSet"`)
	a.projector(0, []string{"schema", "--tests"}, `"$schema": "http://json-schema.org/draft-07/schema#"`, `"expectParked"`)
	a.projector(2, []string{"test"}, "there is no *_test.yaml")
	a.write("counters_test.yaml", authorsTest)
	a.projector(2, []string{"test"}, "the folder has no *.yaml or *.yml file of projections")

	a.write("counters.yaml", strings.Replace(authorsProjection, "n: payload.n", "n: '1'", 1))
	a.projector(1, []string{"test", "./..."}, "FAIL counters_test.yaml:3: a counter adds its numbers up", "line 9: counters c-1: n: expected 5, got 2", "1 of 1 case failed")

	a.write("counters.yaml", strings.Replace(authorsProjection, "n: payload.n", "n: payload.m", 1))
	a.projector(2, []string{"check", "."}, "counters.yaml:11:18: projection counters: CountedEvent: inc n: payload has no field m", "    payload.m\n           ^")
	a.projector(2, []string{"test"}, "payload has no field m")

	a.write("counters.yaml", authorsProjection)
	a.projector(0, []string{"test"}, "ok   counters_test.yaml: 1 case")
	a.projector(0, []string{"test", "--run", "adds"}, "1 case passed")
	a.projector(1, []string{"test", "--run", "nothing"}, "no case has a name that matches")
	a.projector(2, []string{"test", "--run", "("}, "--run is not a regular expression")
	a.projector(0, []string{"check", "counters.yaml", "counters_test.yaml"}, "the projections are right: 1")

	a.write("counters.yaml", strings.Replace(authorsProjection, "n: payload.n", `n: "payload.n + state.?sum.orValue(0)"`, 1))
	a.projector(1, []string{"check", "."}, "counters.yaml:11:18: projection counters: CountedEvent: inc n: no rule sets state.sum")
	a.write("counters_test.yaml", strings.Replace(authorsTest, "eventType: CountedEvent", "eventTyp: CountedEvent", 1))
	a.write("counters.yaml", strings.Replace(authorsProjection, "inc:", "ink:", 1))
	a.projector(2, []string{"check", "."}, "counters.yaml:11:9: projection counters: CountedEvent: unknown word ink", "counters_test.yaml:6:10: case a counter adds its numbers up: unknown key eventTyp")
}
