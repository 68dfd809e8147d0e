package build_test

import (
	"os"
	"os/exec"
	"testing"
)

// TestTableOfPagesForLanguageModelsIsCurrent compares llms.txt with the pages.
func TestTableOfPagesForLanguageModelsIsCurrent(t *testing.T) {
	t.Parallel()
	current, err := os.ReadFile("../../llms.txt")
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "sh", "../../hack/llms.sh")
	command.Env = append(os.Environ(), "LC_ALL=C")
	made, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	if string(made) != string(current) {
		t.Error("llms.txt is not current: run make llms")
	}
}
