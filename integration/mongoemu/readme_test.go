package mongoemu_test

import (
	"os"
	"strings"
	"testing"
)

// TestReadmeHasTheExamples compares the README with the examples that this module's tests
// compile and run.
func TestReadmeHasTheExamples(t *testing.T) {
	t.Parallel()
	readme := string(must[[]byte](t)(os.ReadFile("README.md")))
	for file, from := range map[string]string{"example_test.go": "func Example", "mongoemutest/example_test.go": "func Test"} {
		source := string(must[[]byte](t)(os.ReadFile(file)))
		if !strings.Contains(readme, source[strings.Index(source, from):]) {
			t.Errorf("README.md does not have the code of %s", file)
		}
	}
}
