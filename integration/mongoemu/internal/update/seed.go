package update

import (
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/query"
)

// Seed returns the document that an upsert starts from: the fields whose values the
// filter fixes, with _id first. A field that the filter fixes twice is an error.
func Seed(fields []query.Equality) ([]byte, error) {
	root := leaf(bsonraw.DocumentValue([]byte{5, 0, 0, 0, 0}))
	root.expand()
	t := &target{root: root}
	for _, f := range fields {
		if f.Value.Type == bsoncore.TypeRegex || f.Value.Type == bsoncore.TypeUndefined {
			continue
		}
		path, err := splitPath(f.Path.String())
		if err != nil {
			return nil, err
		}
		found, last, depth, err := t.find(path)
		if err != nil || found != nil {
			return nil, mongoerr.New(mongoerr.NotSingleValueField, "cannot infer query fields to set, path '%s' is matched twice", f.Path)
		}
		if err := t.create(path, last, depth, f.Value); err != nil {
			return nil, err
		}
	}
	return withID(root.current().Data, bsonraw.Missing), nil
}
