package query

import (
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/bsonraw"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/collation"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/expr"
	"github.com/penstock-cdc/penstock/integration/mongoemu/internal/mongoerr"
)

// CompilePartial compiles the filter of a partial index. It only allows $eq, $gt, $gte,
// $lt, $lte, $in, $type, $exists: true, $and and $or. c is the index's collation.
func CompilePartial(filter []byte, c *collation.Collation) (*Matcher, error) {
	m, err := Compile(filter, expr.Vars{Collation: c})
	if err != nil {
		return nil, err
	}
	return m, partialDocument(filter)
}

func partialDocument(filter []byte) error {
	for it := bsonraw.NewIter(filter); it.Next(); {
		key, v := string(it.Key()), it.Value()
		switch {
		case key == "$and" || key == "$or":
			for _, branch := range bsonraw.Elements(v.Data) {
				if err := partialDocument(branch.Data); err != nil {
					return err
				}
			}
		case strings.HasPrefix(key, "$"):
			return errPartial(key)
		case v.Type == bsoncore.TypeRegex:
			return errPartial("$regex")
		case isOperators(v):
			if err := partialOperators(v.Data); err != nil {
				return err
			}
		}
	}
	return nil
}

func partialOperators(operators []byte) error {
	for it := bsonraw.NewIter(operators); it.Next(); {
		switch key := string(it.Key()); key {
		case "$eq", "$gt", "$gte", "$lt", "$lte", "$in", "$type":
		case "$exists":
			if !bsonraw.Truthy(it.Value()) {
				return errPartial("$exists: false")
			}
		default:
			return errPartial(key)
		}
	}
	return nil
}

func errPartial(operator string) error {
	return mongoerr.New(mongoerr.CannotCreateIndex, "Expression not supported in partial index: %s", operator)
}
