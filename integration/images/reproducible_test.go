package images_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// sources are the parts of the tree that images are made from.
var sources = []string{"Makefile", "LICENSE", "hack/notices.sh", "charts/penstock/Chart.yaml", "pkg", "publisher", "projector", "integration", "hack/tools/images"}

func TestBuildIsReproducible(t *testing.T) {
	first := archivePath(t, "publisher")
	a := openArchive(t, first)
	_, index := a.images(t)
	created := checkLabels(t, "publisher", index.Annotations)

	// The folder has a longer path than the repository, and no git.
	elsewhere := filepath.Join(t.TempDir(), "a", "copy")
	copySources(t, elsewhere)
	build := exec.CommandContext(t.Context(), "make", "images",
		"VERSION="+chartVersion(t), "REVISION="+index.Annotations[labels+"revision"], "SOURCE_DATE_EPOCH="+strconv.FormatInt(created.Unix(), 10))
	build.Dir = elsewhere
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, program := range programs {
		t.Run(program, func(t *testing.T) {
			first := archivePath(t, program)
			second := filepath.Join(elsewhere, "dist", filepath.Base(first))
			if one, two := read(t, first), read(t, second); !bytes.Equal(one, two) {
				t.Errorf("%s has the digest %s, and the second build %s: either the tree has changed since, or the build is not reproducible",
					first, digest(one), digest(two))
			}
		})
	}
}

// copySources copies the source files that git tracks or would add, as they are in the
// working tree.
func copySources(t *testing.T, to string) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", append([]string{"ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"}, sources...)...)
	list.Dir = repository
	names, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join(repository, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // deleted in the working tree
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
