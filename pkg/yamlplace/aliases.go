package yamlplace

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// maxRepeated bounds the values that the aliases of a file repeat. Twenty-five lines can
// repeat 33 million values, because each line can name the one before it twice. An alias
// within the value that it repeats has no end.
const maxRepeated = 100_000

// repeated counts the values that the aliases of a file repeat.
type repeated int

// count adds the values that aliases repeat in a node. alias is the one that repeats the node,
// nil if none does. count returns a mistake if there are more than maxRepeated.
func (r *repeated) count(node, alias *yaml.Node) *Mistake {
	if node.Kind == yaml.AliasNode {
		if alias == nil {
			alias = node
		}
		return r.count(node.Alias, alias)
	}
	if alias != nil {
		if *r++; *r > maxRepeated {
			return &Mistake{Line: alias.Line, Column: alias.Column, Message: fmt.Sprintf("with the alias *%s, the aliases of the file repeat more than %d values: write fewer aliases of values that contain aliases, and none within its own value", alias.Value, maxRepeated)}
		}
	}
	for _, child := range node.Content {
		if mistake := r.count(child, alias); mistake != nil {
			return mistake
		}
	}
	return nil
}
