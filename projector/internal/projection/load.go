package projection

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxFile bounds a file of declarations or tests in bytes, so that a wrong path fails before a
// large file is read into memory.
const maxFile = 8 << 20

// ErrNoFile is returned if a folder has no file of projections.
var ErrNoFile = errors.New("the folder has no *.yaml or *.yml file of projections")

// Load reads and compiles the projections in YAML files and folders. In a folder it reads
// every *.yaml and *.yml file in the order of their names, except test files, whose names
// end in _test. All files form one set: names and collections must be unique, and each
// section events applies to all files. The error lists the problems of all files.
func Load(paths ...string) ([]*Projection, error) {
	l := newLoader()
	l.read(paths)
	return l.result(paths...)
}

// Check is [Load] and also returns advice about declarations that are valid but probably
// mistakes: fields of the state that no rule sets, expressions that can exceed the cost limit, and event types
// that are missing in the section events although it has a similar one.
func Check(paths ...string) (projections []*Projection, advice []Problem, err error) {
	l := newLoader()
	l.advising = true
	l.read(paths)
	if projections, err = l.result(paths...); err != nil {
		return nil, nil, err
	}
	SortProblems(l.advice)
	return projections, l.advice, nil
}

// read parses all files.
func (l *loader) read(paths []string) {
	read := map[string]bool{}
	for _, path := range paths {
		files, err := declarationFiles(path)
		if err != nil {
			l.report(Problem{File: path, Message: WithoutPath(err).Error()})
			l.empty = l.empty || errors.Is(err, ErrNoFile)
			continue
		}
		for _, file := range files {
			if read[file] {
				continue
			}
			read[file] = true
			if data, err := ReadFile(file); err != nil {
				l.report(Problem{File: file, Message: err.Error()})
			} else {
				l.parse(file, data)
			}
		}
	}
}

// Parse is Load for the content of one file. Errors use name as the file's name.
func Parse(name string, data []byte) ([]*Projection, error) {
	l := newLoader()
	l.parse(name, data)
	return l.result(name)
}

// WithoutPath returns a file system's error without the path, for a message that already names
// the file.
func WithoutPath(err error) error {
	if inner, ok := errors.AsType[*fs.PathError](err); ok {
		return inner.Err
	}
	return err
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
		// A mounted ConfigMap also contains folders and links whose names start with a
		// dot. The links to its files have plain names.
		ext := filepath.Ext(name)
		if !strings.HasPrefix(name, ".") && !entry.IsDir() && (ext == ".yaml" || ext == ".yml") && !strings.HasSuffix(name, "_test"+ext) {
			files = append(files, filepath.Join(path, name))
		}
	}
	if len(files) == 0 {
		return nil, ErrNoFile
	}
	slices.Sort(files)
	return files, nil
}

// ReadFile reads a file that an author writes. Its errors do not name the file.
func ReadFile(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, WithoutPath(err)
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("the file has %d bytes; at most %d are allowed", info.Size(), maxFile)
	}
	data, err := os.ReadFile(file)
	return data, WithoutPath(err)
}
