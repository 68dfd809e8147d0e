package update

import (
	"strconv"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
)

// node is a value. It is opened into its elements only if an update reaches inside it;
// other values keep their bytes.
type node struct {
	value    bsonraw.Value // valid while the node is not open
	open     bool
	array    bool
	children []element
}

type element struct {
	key  string
	node *node
}

func leaf(v bsonraw.Value) *node { return &node{value: v} }

// expand opens a document or an array. It returns false for any other value.
func (n *node) expand() bool {
	if n.open {
		return true
	}
	if n.value.Type != bsoncore.TypeEmbeddedDocument && n.value.Type != bsoncore.TypeArray {
		return false
	}
	n.open = true
	n.array = n.value.Type == bsoncore.TypeArray
	for it := bsonraw.NewIter(n.value.Data); it.Next(); {
		n.children = append(n.children, element{string(it.Key()), leaf(it.Value())})
	}
	return true
}

// current returns the node's value after the changes so far.
func (n *node) current() bsonraw.Value {
	if !n.open {
		return n.value
	}
	t := bsoncore.TypeEmbeddedDocument
	if n.array {
		t = bsoncore.TypeArray
	}
	b := bsonraw.NewBuilder(64)
	n.write(b)
	return bsonraw.Value{Type: t, Data: b.Bytes()}
}

func (n *node) write(b *bsonraw.Builder) {
	for i, c := range n.children {
		key := c.key
		if n.array {
			key = bsonraw.Index(i)
		}
		if !c.node.open {
			b.Value(key, c.node.value)
			continue
		}
		if c.node.array {
			b.StartArray(key)
		} else {
			b.Start(key)
		}
		c.node.write(b)
		b.End()
	}
}

// child returns an element of an open node, by name or by array position, or nil.
func (n *node) child(key string) *node {
	if n.array {
		i, ok := position(key)
		if !ok || i >= len(n.children) {
			return nil
		}
		return n.children[i].node
	}
	for _, c := range n.children {
		if c.key == key {
			return c.node
		}
	}
	return nil
}

// attach adds an element that child did not find. It fills an array with nulls up to the
// position.
func (n *node) attach(key string, c *node) {
	if n.array {
		i, _ := position(key)
		for len(n.children) < i {
			n.children = append(n.children, element{node: leaf(bsonraw.Null)})
		}
	}
	n.children = append(n.children, element{key, c})
}

// detach removes an element. An array element becomes null instead.
func (n *node) detach(key string) {
	if n.array {
		if i, ok := position(key); ok && i < len(n.children) {
			n.children[i].node = leaf(bsonraw.Null)
		}
		return
	}
	for i, c := range n.children {
		if c.key == key {
			n.children = append(n.children[:i:i], n.children[i+1:]...)
			return
		}
	}
}

// position parses an array position: up to seven digits without a leading zero.
func position(key string) (int, bool) {
	if key == "" || len(key) > 7 || key[0] == '0' && len(key) > 1 {
		return 0, false
	}
	for _, c := range key {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.Atoi(key)
	return n, err == nil
}
