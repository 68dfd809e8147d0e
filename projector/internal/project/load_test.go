package project_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/projector/internal/project"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestProblems holds the messages for wrong declarations against golden files:
// they are what a projection's author works with.
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
			_, err = project.Parse(filepath.Base(input), data)
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
