package store

import (
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

// undefined is the indexed value of an empty array.
var undefined = bsonraw.Value{Type: bsoncore.TypeUndefined}

// extract returns one row of values per combination that a document has at the parts'
// paths. Fields that pass through the same array vary together. Two different arrays in
// one index are an error, as in MongoDB. multi reports whether there was an array.
func extract(doc []byte, parts []KeyPart) (rows [][]bsonraw.Value, multi bool, err error) {
	at := make([]cursor, len(parts))
	for i, p := range parts {
		at[i] = cursor{base: bsonraw.DocumentValue(doc), rest: p.Path}
	}
	return expand(nil, at)
}

// cursor is the position on one field's path: base is the value reached and rest the
// remaining names. If done is set, an array in base is not expanded.
type cursor struct {
	base bsonraw.Value
	rest []string
	done bool
}

// open reports whether base is an array that must be expanded.
func (c cursor) open() bool { return !c.done && c.base.Type == bsoncore.TypeArray }

// advance follows the path through documents until its end or an array.
func (c cursor) advance() cursor {
	for len(c.rest) > 0 && c.base.Type == bsoncore.TypeEmbeddedDocument {
		v, ok := bsonraw.Lookup(c.base.Data, c.rest[0])
		if !ok {
			return cursor{base: bsonraw.Missing}
		}
		c = cursor{base: v, rest: c.rest[1:]}
	}
	if len(c.rest) > 0 && c.base.Type != bsoncore.TypeArray {
		return cursor{base: bsonraw.Missing}
	}
	return c
}

func expand(rows [][]bsonraw.Value, at []cursor) ([][]bsonraw.Value, bool, error) {
	moved := make([]cursor, len(at))
	var arr []byte
	for i, c := range at {
		moved[i] = c.advance()
		if !moved[i].open() {
			continue
		}
		data := moved[i].base.Data
		if arr != nil && &arr[0] != &data[0] {
			return nil, false, mongoerr.New(mongoerr.CannotIndexParallelArrays, "cannot index parallel arrays")
		}
		arr = data
	}
	if arr == nil {
		row := make([]bsonraw.Value, len(at))
		for i, c := range moved {
			row[i] = c.base
		}
		return append(rows, row), false, nil
	}
	if bsonraw.Empty(arr) {
		row := make([]bsonraw.Value, len(at))
		for i, c := range moved {
			switch {
			case !c.open():
				row[i] = c.base
			case len(c.rest) == 0:
				row[i] = undefined
			}
		}
		return append(rows, row), true, nil
	}
	for it := bsonraw.NewIter(arr); it.Next(); {
		next := make([]cursor, len(at))
		for i, c := range moved {
			switch {
			case !c.open():
				next[i] = c
			case len(c.rest) == 0:
				next[i] = cursor{base: it.Value(), done: true}
			case it.Value().Type == bsoncore.TypeEmbeddedDocument:
				next[i] = cursor{base: it.Value(), rest: c.rest}
			default:
				next[i] = cursor{base: bsonraw.Missing}
			}
		}
		var err error
		if rows, _, err = expand(rows, next); err != nil {
			return nil, true, err
		}
	}
	return rows, true, nil
}
