package yamlplace

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// Entry is a key of a mapping and its value.
type Entry struct {
	Key string
	// Node is the key, for problems. Neither it nor Value is an alias.
	Node, Value *yaml.Node
}

// Entries returns the entries of a mapping in their order; false if the node is no mapping. It
// reports << and keys that are no texts or are there twice, and leaves them out. hint ends the
// texts about << and about keys that are no texts.
func Entries(node *yaml.Node, hint string, report func(at *yaml.Node, format string, args ...any)) ([]Entry, bool) {
	if node.Kind != yaml.MappingNode {
		return nil, false
	}
	var found []Entry
	seen := map[string]bool{}
	for pair := range slices.Chunk(node.Content, 2) {
		key := *Resolve(pair[0])
		key.Line, key.Column = pair[0].Line, pair[0].Column
		switch {
		case key.Tag == "!!merge":
			report(&key, "<< does not merge: write the keys out, or name a whole value with &name and repeat it with *name%s", hint)
		case key.Kind != yaml.ScalarNode || key.Tag == "!!null":
			report(&key, "a key is a text, not a list, a mapping or null%s", hint)
		case seen[key.Value]:
			report(&key, "%s is there twice", key.Value)
		default:
			seen[key.Value] = true
			found = append(found, Entry{Key: key.Value, Node: &key, Value: Resolve(pair[1])})
		}
	}
	return found, true
}
