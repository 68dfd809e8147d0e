package testcase

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// suffixes are the suffixes of test files.
var suffixes = []string{"_test.yaml", "_test.yml"}

// IsTest reports whether a path names a test file.
func IsTest(path string) bool {
	return slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(path, s) })
}

// recursive are the endings of a path that selects a folder and all folders below it.
// Some keyboards replace three dots by one character.
var recursive = []string{"...", "…"}

// Find returns the test files that paths select. A file selects itself. A folder selects
// its *_test.yaml and *_test.yml. A folder with /... also selects those of the folders
// below it, except folders whose names begin with a dot or an underscore. A path that
// selects no file is an error.
func Find(paths []string) ([]string, error) {
	var found []string
	for _, path := range paths {
		files, err := findAt(path)
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("%s: there is no *_test.yaml", path)
		}
		for _, file := range files {
			if !slices.Contains(found, file) {
				found = append(found, file)
			}
		}
	}
	return found, nil
}

func findAt(path string) ([]string, error) {
	root, deep := path, false
	for _, dots := range recursive {
		if folder, ok := strings.CutSuffix(path, dots); ok && (folder == "" || strings.HasSuffix(folder, "/")) {
			root, deep = filepath.Clean(folder+"."), true
		}
	}
	info, err := os.Stat(root)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, projection.WithoutPath(err))
	}
	if !info.IsDir() {
		return []string{root}, nil
	}
	var files []string
	err = filepath.WalkDir(root, func(at string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !entry.IsDir():
			if IsTest(at) && !strings.HasPrefix(entry.Name(), ".") {
				files = append(files, at)
			}
		case at != root && (!deep || strings.HasPrefix(entry.Name(), ".") || strings.HasPrefix(entry.Name(), "_")):
			return fs.SkipDir
		}
		return nil
	})
	return files, err
}
