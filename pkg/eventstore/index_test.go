package eventstore

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/event"
	"github.com/penstock-cdc/penstock/pkg/testkit"
)

func TestUsableIndex(t *testing.T) {
	t.Parallel()
	id := bson.D{{Key: "v", Value: 2}, {Key: "key", Value: bson.D{{Key: "_id", Value: 1}}}, {Key: "name", Value: "_id_"}}
	swedish := bson.E{Key: "collation", Value: bson.D{{Key: "locale", Value: "sv"}}}
	keys := func(elements ...bson.E) bson.E { return bson.E{Key: "key", Value: bson.D(elements)} }
	both := keys(bson.E{Key: "agg", Value: 1}, bson.E{Key: "n", Value: 1.0})
	named := bson.E{Key: "name", Value: "right"}
	for name, test := range map[string]struct {
		id, index bson.D
		usable    bool
	}{
		"usable":                                {id, bson.D{both, named, {Key: "unique", Value: true}}, true},
		"collation of the collection":           {append(id[:3:3], swedish), bson.D{both, named, swedish}, true},
		"another collation than the collection": {id, bson.D{both, named, swedish}, false},
		"no collation, unlike the collection":   {append(id[:3:3], swedish), bson.D{both, named}, false},
		"partial":                               {id, bson.D{both, named, {Key: "partialFilterExpression", Value: bson.D{}}}, false},
		"sparse":                                {id, bson.D{both, named, {Key: "sparse", Value: true}}, false},
		"sparse, as a number":                   {id, bson.D{both, named, {Key: "sparse", Value: 1}}, false},
		"hidden":                                {id, bson.D{both, named, {Key: "hidden", Value: true}}, false},
		"not sparse":                            {id, bson.D{both, named, {Key: "sparse", Value: false}}, true},
		"first key only":                        {id, bson.D{keys(bson.E{Key: "agg", Value: 1}), named}, false},
		"an additional key":                     {id, bson.D{keys(bson.E{Key: "agg", Value: 1}, bson.E{Key: "n", Value: 1}, bson.E{Key: "x", Value: 1}), named}, false},
		"keys in reverse order":                 {id, bson.D{keys(bson.E{Key: "n", Value: 1}, bson.E{Key: "agg", Value: 1}), named}, false},
		"a descending key":                      {id, bson.D{keys(bson.E{Key: "agg", Value: 1}, bson.E{Key: "n", Value: -1}), named}, false},
		"hashed":                                {id, bson.D{keys(bson.E{Key: "agg", Value: "hashed"}, bson.E{Key: "n", Value: 1}), named}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &Reader{fields: event.Fields{AggregateID: "agg", EventID: "n"}}
			var indexes []bson.Raw
			for _, spec := range []bson.D{test.id, test.index} {
				indexes = append(indexes, testkit.Raw(spec))
			}
			if got := c.usable(indexes); (got == "right") != test.usable {
				t.Errorf("found %q", got)
			}
			if has := testkit.Raw(test.id).Lookup("collation").Type != 0; c.collated.Load() != has {
				t.Errorf("collated: %v", !has)
			}
		})
	}
}

func TestPositionOfADocument(t *testing.T) {
	t.Parallel()
	c := &Reader{fields: event.Fields{AggregateID: "agg", EventID: "n"}}
	for name, test := range map[string]struct {
		document bson.D
		ok       bool
	}{
		"whole":       {bson.D{{Key: "agg", Value: "a"}, {Key: "n", Value: 1}}, true},
		"without any": {bson.D{{Key: "x", Value: 1}}, true},
		"array":       {bson.D{{Key: "agg", Value: bson.A{"a", "b"}}, {Key: "n", Value: 1}}, false},
	} {
		if _, ok := c.Position(testkit.Raw(test.document)); ok != test.ok {
			t.Errorf("%s: has a position: %v", name, ok)
		}
	}
}
