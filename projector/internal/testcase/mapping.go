package testcase

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/penstock-cdc/penstock/pkg/similar"
	"github.com/penstock-cdc/penstock/pkg/yamlplace"
)

// mapping returns the values of a mapping by key, and reports problems. If the node is
// not a mapping, it returns nil. known are the allowed keys; nil allows any key, and what
// is then the whole message of the problem.
func (f *File) mapping(node *yaml.Node, name, what string, known []string) map[string]*yaml.Node {
	if node.Kind != yaml.MappingNode {
		if known != nil {
			what += " is a mapping with " + strings.Join(known, ", ")
		}
		f.problem(node, name, "%s", what)
		return nil
	}
	found := map[string]*yaml.Node{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := keyAt(node, i), yamlplace.Resolve(node.Content[i+1])
		switch {
		case !f.plainKey(key, name):
		case found[key.Value] != nil:
			f.problem(key, name, "%s is there twice", key.Value)
		case known != nil && !slices.Contains(known, key.Value):
			f.problem(key, name, "unknown key %s%s; %s has %s", key.Value, similar.Meant(key.Value, known), what, strings.Join(known, ", "))
		default:
			found[key.Value] = value
		}
	}
	return found
}

// keyAt returns a key of a mapping. If the key is an alias, keyAt returns the node to which
// the alias refers, at the place of the alias.
func keyAt(mapping *yaml.Node, i int) *yaml.Node {
	key := *yamlplace.Resolve(mapping.Content[i])
	key.Line, key.Column = mapping.Content[i].Line, mapping.Content[i].Column
	return &key
}

// plainKey reports whether a key of a mapping is a text, and reports a problem if it is not.
func (f *File) plainKey(key *yaml.Node, name string) bool {
	switch {
	case key.Tag == "!!merge":
		f.problem(key, name, "<< merges mappings, which test files cannot: write the keys out")
		return false
	case key.Kind != yaml.ScalarNode:
		f.problem(key, name, "a key is a text, not a list or a mapping")
		return false
	}
	return true
}
