package sbemu_test

import (
	"os"
	"strings"
	"testing"
)

// TestReadmeHasTheExamples compares the README with the examples that this module's tests
// compile and run.
func TestReadmeHasTheExamples(t *testing.T) {
	t.Parallel()

	readme, err := os.ReadFile("README.md")
	must(t, err)

	for file, from := range map[string]string{"example_test.go": "func Example", "sbemutest/example_test.go": "func Test"} {
		source, err := os.ReadFile(file)
		must(t, err)

		code := string(source)[strings.Index(string(source), from):]
		if !strings.Contains(string(readme), code) {
			t.Errorf("README.md does not have the code of %s", file)
		}
	}
}
