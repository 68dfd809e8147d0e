package project

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxFile bounds a file of declarations, so that a wrong path is noticed before it
// is read whole.
const maxFile = 8 << 20

// Load reads the projections of a YAML file, or of every *.yaml and *.yml file of
// a folder in the order of their names, and compiles them. Whatever is wrong
// with any of them is in the error, a [*LoadError].
func Load(path string) ([]*Projection, error) {
	files, err := declarationFiles(path)
	if err != nil {
		return nil, &LoadError{Problems: []Problem{{File: path, Message: cause(err)}}}
	}
	l := newLoader()
	for _, file := range files {
		if data, err := readDeclarations(file); err != nil {
			l.report(Problem{File: file, Message: cause(err)})
		} else {
			l.parse(file, data)
		}
	}
	return l.result(path)
}

// Parse is Load of one file's content; name stands in errors for the file.
func Parse(name string, data []byte) ([]*Projection, error) {
	l := newLoader()
	l.parse(name, data)
	return l.result(name)
}

// cause leaves the path out of a file system's error: the problem names it.
func cause(err error) string {
	if inner, ok := errors.AsType[*fs.PathError](err); ok {
		return inner.Op + ": " + inner.Err.Error()
	}
	return err.Error()
}

func declarationFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		name := entry.Name()
		// A mounted ConfigMap holds folders and links whose names start with dots; the
		// links that it means have plain names.
		if ext := filepath.Ext(name); !strings.HasPrefix(name, ".") && !entry.IsDir() && (ext == ".yaml" || ext == ".yml") {
			files = append(files, filepath.Join(path, name))
		}
	}
	if len(files) == 0 {
		return nil, errors.New("the folder has no *.yaml or *.yml file")
	}
	slices.Sort(files)
	return files, nil
}

func readDeclarations(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("the file has %d bytes, more than the %d of any set of projections", info.Size(), maxFile)
	}
	return os.ReadFile(file)
}
