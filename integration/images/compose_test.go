package images_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// The images of integration/compose must be those that make load-images loads, under the
// same names.
func TestComposeRunsTheImages(t *testing.T) {
	file := filepath.Join(repository, "integration", "compose", "compose.yaml")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var compose struct {
		Services map[string]struct {
			Image   string
			Volumes []string
		}
	}
	if err := yaml.Unmarshal(content, &compose); err != nil {
		t.Fatal(err)
	}
	built := make(map[string]string)
	for _, program := range programs {
		built[program] = imageName(t, program) + ":${PENSTOCK_VERSION:-" + chartVersion(t) + "}"
	}
	used := make(map[string]bool)
	for name, s := range compose.Services {
		program := programs[max(0, slices.IndexFunc(programs, func(p string) bool { return built[p] == s.Image }))]
		if built[program] != s.Image {
			t.Errorf("%s runs %s, which make load-images does not build", name, s.Image)
		}
		used[program] = true
		for _, volume := range s.Volumes {
			path, _, _ := strings.Cut(volume, ":")
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), path)); err != nil {
				t.Errorf("%s mounts %v", name, err)
			}
		}
	}
	if len(used) != len(programs) {
		t.Errorf("it runs %d of the %d images", len(used), len(programs))
	}
}
