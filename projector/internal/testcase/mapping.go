package testcase

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/penstock-cdc/penstock/pkg/similar"
	"github.com/penstock-cdc/penstock/pkg/yamlplace"
)

// mapping returns the values of a mapping by key, and reports problems. If the node is
// not a mapping, it returns nil.
func (f *File) mapping(node *yaml.Node, name, what string, known []string) map[string]*yaml.Node {
	entries, ok := f.entries(node, name)
	if !ok {
		f.problem(node, name, "%s is a mapping with %s", what, strings.Join(known, ", "))
		return nil
	}
	found := map[string]*yaml.Node{}
	for _, e := range entries {
		if found[e.Key] = e.Value; !slices.Contains(known, e.Key) {
			f.problem(e.Node, name, "unknown key %s%s; %s has %s", e.Key, similar.Meant(e.Key, known), what, strings.Join(known, ", "))
		}
	}
	return found
}

// entries returns the entries of a mapping, and reports its problems.
func (f *File) entries(node *yaml.Node, name string) ([]yamlplace.Entry, bool) {
	return yamlplace.Entries(node, "", func(at *yaml.Node, format string, args ...any) { f.problem(at, name, format, args...) })
}
