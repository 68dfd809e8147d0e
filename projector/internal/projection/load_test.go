package projection_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestProblems checks the messages for wrong declarations against golden files: they are
// what a projection's author works with.
func TestProblems(t *testing.T) {
	t.Parallel()
	inputs, err := filepath.Glob("testdata/problems/*.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no inputs: %v", err)
	}
	for _, input := range inputs {
		name := strings.TrimSuffix(filepath.Base(input), ".yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(input)
			if err != nil {
				t.Fatal(err)
			}
			_, err = projection.Parse(filepath.Base(input), data)
			if err == nil {
				t.Fatal("the declarations were taken")
			}
			got := err.Error() + "\n"
			golden := strings.TrimSuffix(input, ".yaml") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestLoad checks how files are found.
func TestLoad(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := projection.Load(folder); err == nil || !strings.Contains(err.Error(), "no *.yaml") {
		t.Errorf("an empty folder: %v", err)
	}
	if _, err := projection.Load(filepath.Join(folder, "missing.yaml")); err == nil || !strings.Contains(err.Error(), "missing.yaml: no such file") {
		t.Errorf("a missing file: %v", err)
	}
	write("b.yaml", "projections: [{name: b, collection: b, on: {E: {set: {a: \"1\"}}}}]")
	write("a.yml", "projections: [{name: a1, collection: a1, on: {E: {set: {a: 1}}}}]\n---\nprojections: [{name: a2, collection: a2, on: {E: {delete: true}}}]")
	write(".hidden.yaml", "not one")
	write("notes.txt", "not one")
	write("a_test.yaml", "tests: []")
	projections, err := projection.Load(folder)
	if err != nil || len(projections) != 3 {
		t.Fatalf("%v, %v", projections, err)
	}
	for i, want := range []string{"a1", "a2", "b"} {
		if projections[i].Name() != want || projections[i].Deletes() != (want == "a2") {
			t.Errorf("%d is %s", i, projections[i].Name())
		}
	}
	write("c.yaml", "projections: [{name: a1, collection: c, on: {E: {set: {a: b}}}}]")
	_, err = projection.Load(folder)
	if err == nil || !strings.Contains(err.Error(), "c.yaml:1:15: projection a1: the name is taken by the projection at "+filepath.Join(folder, "a.yml")+":1") ||
		!strings.Contains(err.Error(), "2 problems") {
		t.Errorf("a name taken in another file: %v", err)
	}
	write("c.yaml", strings.Repeat("#", 9<<20))
	if _, err = projection.Load(folder); err == nil || !strings.Contains(err.Error(), "are allowed") {
		t.Errorf("a huge file: %v", err)
	}
}

// FuzzParse checks that any input yields projections or an error, and no panic.
func FuzzParse(f *testing.F) {
	inputs, err := filepath.Glob("testdata/problems/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, input := range inputs {
		data, err := os.ReadFile(input)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Add("a: &a [*a]")
	f.Add("projections: &p [{name: a, collection: b, on: &o {E: *o}}]")
	f.Fuzz(func(t *testing.T, text string) {
		projections, err := projection.Parse("fuzz.yaml", []byte(text))
		if err != nil && err.Error() == "" || err == nil && len(projections) == 0 {
			t.Errorf("%v, %v", projections, err)
		}
	})
}
