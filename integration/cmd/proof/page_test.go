package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-cdc/penstock/integration/simulation/mutations"
	"github.com/penstock-cdc/penstock/integration/simulation/record"
)

// top is the top of the repository.
const top = "../../.."

// TestPageSaysWhatTheRecordHas writes the page of a small record.
func TestPageSaysWhatTheRecordHas(t *testing.T) {
	dir := t.TempDir()
	at := record.Origin{At: time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC), Commit: "0123456789"}
	run := record.Run{Origin: at, First: 1, Last: 60, Failed: []uint64{12}, Explained: []record.Explanation{{Seeds: []uint64{12}, Mended: "simulation", Why: "no operator waited"}}, States: []record.Point{{Histories: 10, States: 40}, {Histories: 60, States: 90}}}
	run.Tally = record.Tally{Histories: 60, Events: 12_345, Requests: 1_234_567, Virtual: 5 * time.Hour, Faults: map[string]int{"crash projector": 321}}
	trial := record.Mutation{Origin: at, Name: mutations.Table[0].Name, Seed: 7, Promise: "G4: at most one instance leads"}
	for file, line := range map[string]any{record.RunsFile: &run, record.MutationsFile: &trial} {
		if err := record.Append(dir, file, line); err != nil {
			t.Fatal(err)
		}
	}
	var b strings.Builder
	if err := write(&b, dir); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| 2026-11-28 | `0123456789` | 1 to 60 | 60 | 5.0 | 12,345 | 1,234,567 | 0 | 1: [12] |",
		"| all |  | 60 different ones | 60 |",
		"Of 60 histories that began, 60 ended",
		"- simulation: 1\n",
		"- `0123456789`, 12 (simulation): no operator waited.\n",
		"SEEDS=61 FOR=8h",
		"| crash projector | 321 |",
		"| 60 | 90 | 1.0 |",
		"### G3\n\n- read models equal the fold of the event store\n",
		"found by seed 7: G4: at most one instance leads",
		"histories have found 1 of them, of these 1 with a seed of 1 to 40, and a test 0",
		"not on record",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if err := write(&b, t.TempDir()); err == nil || !strings.Contains(err.Error(), "make proof") {
		t.Errorf("without a run the error is %v", err)
	}
}

// TestDefectsCanBeSeenAgain checks that the test of each defect exists.
func TestDefectsCanBeSeenAgain(t *testing.T) {
	for _, d := range defects {
		exists := false
		switch d.test {
		case named:
			folder, test, _ := strings.Cut(d.name, " ")
			files, _ := filepath.Glob(filepath.Join(top, folder, "*_test.go"))
			exists = slices.ContainsFunc(files, func(file string) bool {
				text, _ := os.ReadFile(file)
				return strings.Contains(string(text), "func "+test+"(")
			})
		case mutation:
			exists = slices.ContainsFunc(mutations.Table, func(m mutations.Mutation) bool { return m.Name == d.name })
		case plan:
			_, err := os.Stat(filepath.Join(top, "integration/simulation/testdata/failed", d.name+".json"))
			exists = err == nil
		}
		if !exists {
			t.Errorf("there is no %s: name what finds this defect: %s", d.name, d.what)
		}
	}
}

// TestExplanationsAreOfFailedHistories checks what people have typed into the record, and that a commit is known.
func TestExplanationsAreOfFailedHistories(t *testing.T) {
	runs, err := record.Read[record.Run](filepath.Join(top, folder), record.RunsFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		var explained []uint64
		for _, e := range r.Explained {
			explained = append(explained, e.Seeds...)
		}
		if slices.Sort(explained); !slices.Equal(explained, r.Failed) {
			t.Errorf("%s: seeds %d failed, and %d are explained", r.Commit, r.Failed, explained)
		}
	}
	if now, err := record.Now(); err != nil || len(now.Commit) < 10 {
		t.Errorf("the present commit is %q, %v", now.Commit, err)
	}
}

// TestPageOfTheRepository checks that docs/proof.md was made from the record and the table.
func TestPageOfTheRepository(t *testing.T) {
	got, err := os.ReadFile(filepath.Join(top, "docs/proof.md"))
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	if err := write(&want, filepath.Join(top, folder)); err != nil {
		t.Fatal(err)
	}
	if string(got) != want.String() {
		t.Error("docs/proof.md is not what the record says: run make proof-page")
	}
}
