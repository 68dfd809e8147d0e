package testcase

import (
	"fmt"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/yamlplace"
	"github.com/penstock-cdc/penstock/projector/internal/projection"
)

// The keys of a test file, of its cases, of a case's steps, of events and of parked
// aggregates.
var (
	fileKeys   = []string{"projections", "tests"}
	caseKeys   = []string{"name", "aggregateId", "aggregateType", "steps", "given", "expect", "expectParked", "exact"}
	stepKeys   = []string{"given", "expect", "expectParked", "exact"}
	eventKeys  = []string{"eventType", "aggregateId", "aggregateType", "eventId", "timestamp", "payload", "metadata"}
	parkedKeys = []string{"eventId", "reason", "error"}
)

// File is a file of cases.
type File struct {
	Path string
	// Projections are the files and folders of the projections under test, as seen from the
	// working directory.
	Projections []string
	Cases       []*Case
	// Problems are the problems of the file.
	Problems []projection.Problem
	lines    []string
	// contract is the contract of the events: the fields have their default names.
	contract event.Fields
}

// Case is one test.
type Case struct {
	Name  string
	File  *File
	Line  int
	Steps []Step
}

// Step is a group of events with the expected state after them.
type Step struct {
	Line   int
	Given  []Event
	Expect []Expected
	// Parked are the aggregates that must be parked after the step, and no others.
	Parked []ExpectedParked
	// Exact is set if documents must have no fields except the expected ones, and the
	// expected projections no other documents.
	Exact bool
}

// Read reads a test file. Of the configured fields only their names do not apply to its events. Errors
// are in its Problems.
func Read(path string, fields event.Fields) *File {
	f := newFile(path, fields)
	data, err := projection.ReadFile(path)
	if err != nil {
		f.problem(nil, "", "read the file: %v", err)
		return f
	}
	f.parse(data)
	return f
}

// Parse is [Read] for the content of a file.
func Parse(path string, data []byte, fields event.Fields) *File {
	f := newFile(path, fields)
	f.parse(data)
	return f
}

func newFile(path string, fields event.Fields) *File {
	contract := event.DefaultFields()
	contract.FirstEventID, contract.UUIDs = fields.FirstEventID, fields.UUIDs
	return &File{Path: path, contract: contract}
}

func (f *File) problem(node *yaml.Node, name, format string, args ...any) {
	p := projection.Problem{File: f.Path, Message: fmt.Sprintf(format, args...)}
	if name != "" {
		p.Where = []string{"case " + name}
	}
	if node != nil {
		p.Line, p.Column = node.Line, node.Column
		p.Show(f.lines)
	}
	f.Problems = append(f.Problems, p)
	projection.SortProblems(f.Problems)
}

func (f *File) parse(data []byte) {
	f.lines = strings.Split(string(data), "\n")
	var first *yaml.Node
	for document, mistake := range yamlplace.Documents(data) {
		if mistake != nil {
			f.problem(&yaml.Node{Line: mistake.Line, Column: mistake.Column}, "", "%s", mistake.Message)
			return
		}
		switch root := document.Content[0]; {
		case root.Tag == "!!null":
			// A file may end with ---.
		case first != nil:
			f.problem(root, "", "a test file is one YAML document, and this is another one: remove the --- before it, and write its cases below the first tests: or in a file of their own")
			return
		default:
			first = root
			f.root(root)
		}
	}
	if first == nil {
		f.problem(nil, "", "the file has no tests: it starts with tests:")
	}
}

// root reads the YAML document of the file.
func (f *File) root(root *yaml.Node) {
	keys := f.mapping(root, "", "a test file", fileKeys)
	if keys == nil {
		return
	}
	f.projections(keys["projections"])
	tests := keys["tests"]
	if tests == nil || tests.Kind != yaml.SequenceNode || len(tests.Content) == 0 {
		f.problem(root, "", "tests is a list of cases: each starts with a dash and has a name")
		return
	}
	names := map[string]int{}
	for _, node := range tests.Content {
		c := f.testCase(yamlplace.Resolve(node))
		if c == nil {
			continue
		}
		if line, taken := names[c.Name]; taken {
			f.problem(node, c.Name, "the name is taken by the case in line %d", line)
		}
		names[c.Name] = c.Line
		f.Cases = append(f.Cases, c)
	}
}

// projections reads the paths of the projections under test. The default is the file's
// folder.
func (f *File) projections(node *yaml.Node) {
	folder := filepath.Dir(f.Path)
	if node == nil {
		f.Projections = []string{folder}
		return
	}
	for _, n := range yamlplace.List(node) {
		if n.Kind != yaml.ScalarNode || n.Value == "" || n.Tag == "!!null" {
			f.problem(n, "", "projections is a file or folder, or a list of them, as seen from this file")
			continue
		}
		path := n.Value
		if !filepath.IsAbs(path) {
			path = filepath.Join(folder, path)
		}
		f.Projections = append(f.Projections, path)
	}
}

func (f *File) testCase(node *yaml.Node) *Case {
	keys := f.mapping(node, "", "a case", caseKeys)
	if keys == nil {
		return nil
	}
	c := &Case{File: f, Line: node.Line}
	if name := keys["name"]; name == nil || name.Kind != yaml.ScalarNode || name.Value == "" {
		f.problem(node, "", "the case has no name: say in a sentence what it shows")
	} else {
		c.Name, c.Line = name.Value, name.Line
	}
	r := &caseReader{File: f, name: c.Name, defaults: keys, at: firstTimestamp, last: map[string]int64{}, types: map[string]*yaml.Node{}}
	if id := keys["aggregateId"]; id != nil {
		r.aggregateID(id)
	}
	r.text(keys["aggregateType"])
	steps := keys["steps"]
	if steps == nil {
		c.Steps = []Step{r.step(node, keys)}
		return c
	}
	for _, key := range stepKeys {
		if keys[key] != nil {
			f.problem(keys[key], c.Name, "a case has %s, or steps that each have it", key)
		}
	}
	if steps.Kind != yaml.SequenceNode || len(steps.Content) == 0 {
		f.problem(steps, c.Name, "steps is a list: each has %s", strings.Join(stepKeys, ", "))
		return c
	}
	for _, n := range steps.Content {
		n = yamlplace.Resolve(n)
		if k := f.mapping(n, c.Name, "a step", stepKeys); k != nil {
			c.Steps = append(c.Steps, r.step(n, k))
		}
	}
	return c
}
