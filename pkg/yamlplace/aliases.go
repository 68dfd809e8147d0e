package yamlplace

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// maxRepeated bounds the values that the aliases of a file repeat. Twenty-five lines can
// repeat 33 million values, because each line can name the one before it twice.
const maxRepeated = 100_000

// repeated counts the values that the aliases of a file repeat.
type repeated struct {
	// values are the sizes of the values with an anchor. An alias names a value before it, or
	// one that contains it and that is not here yet.
	values map[*yaml.Node]int
	total  int
	// mistake is the first mistake about an alias. It ends the count.
	mistake *Mistake
}

// count returns the number of values in a node, including those that aliases repeat.
func (r *repeated) count(node *yaml.Node) int {
	if node.Kind == yaml.AliasNode {
		n, complete := r.values[node.Alias]
		r.total += n
		switch {
		case !complete:
			r.refuse(node, "the alias *%s is within the value &%s that it repeats: write the value without it", node.Value, node.Value)
		case r.total > maxRepeated:
			r.refuse(node, "with the alias *%s, the aliases of the file repeat more than %d values: write fewer aliases of values that contain aliases", node.Value, maxRepeated)
		}
		return n
	}
	n := 1
	for _, child := range node.Content {
		if n += r.count(child); r.mistake != nil {
			return n
		}
	}
	if node.Anchor != "" {
		r.values[node] = n
	}
	return n
}

func (r *repeated) refuse(node *yaml.Node, format string, args ...any) {
	r.mistake = &Mistake{Line: node.Line, Column: node.Column, Message: fmt.Sprintf(format, args...)}
}
