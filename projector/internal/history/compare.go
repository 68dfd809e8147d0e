package history

import (
	"bytes"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/projector/internal/fold"
	"github.com/penstock-cdc/penstock/projector/internal/model"
)

// Difference is a field in which a document differs from the fold.
type Difference struct {
	// Path is the path of the field: keys and array indexes, separated by dots.
	Path string `bson:"path" json:"path"`
	// Want is the type of the value in the fold and Have that of the value in the document, by
	// MongoDB's names. Each is empty if the field is absent. A finding never has the values:
	// findings are kept longer than personal data may be.
	Want string `bson:"want,omitempty" json:"want,omitempty"`
	Have string `bson:"have,omitempty" json:"have,omitempty"`
}

// maxDifferences bounds the differences that a finding lists.
const maxDifferences = 20

// engineFields are written by the engine, not by a projection.
var engineFields = []string{model.FieldID, model.FieldLastEventID, model.FieldLastUpdatedAt, model.FieldLastGeneration}

// comparison collects differences.
type comparison struct {
	found []Difference
	// more counts the differences beyond maxDifferences.
	more int
}

// compare compares the projection's own fields in a document with those of the fold.
func compare(want, have bson.Raw) *comparison {
	c := &comparison{}
	c.documents("", want, have, engineFields)
	return c
}

// equal reports whether there is no difference.
func (c *comparison) equal() bool { return len(c.found) == 0 }

// documents compares two documents and ignores the order of their fields.
func (c *comparison) documents(path string, want, have bson.Raw, except []string) {
	if bytes.Equal(want, have) {
		return
	}
	wanted, _ := want.Elements()
	had, _ := have.Elements()
	values := make(map[string]bson.RawValue, len(had))
	for _, e := range had {
		if !slices.Contains(except, e.Key()) {
			values[e.Key()] = e.Value()
		}
	}
	for _, e := range wanted {
		if slices.Contains(except, e.Key()) {
			continue
		}
		value, ok := values[e.Key()]
		delete(values, e.Key())
		if !ok {
			c.add(Difference{Path: join(path, e.Key()), Want: fold.TypeName(e.Value())})
			continue
		}
		c.values(join(path, e.Key()), e.Value(), value)
	}
	for _, e := range had {
		if value, extra := values[e.Key()]; extra {
			c.add(Difference{Path: join(path, e.Key()), Have: fold.TypeName(value)})
		}
	}
}

func (c *comparison) values(path string, want, have bson.RawValue) {
	if want.Type == have.Type {
		switch want.Type {
		case bson.TypeEmbeddedDocument, bson.TypeArray:
			// The keys of an array are its indexes.
			c.documents(path, want.Value, have.Value, nil)
			return
		}
		if bytes.Equal(want.Value, have.Value) {
			return
		}
	}
	c.add(Difference{Path: path, Want: fold.TypeName(want), Have: fold.TypeName(have)})
}

func (c *comparison) add(d Difference) {
	if len(c.found) == maxDifferences {
		c.more++
		return
	}
	c.found = append(c.found, d)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
