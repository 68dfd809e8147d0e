package readmodel

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/penstock-cdc/penstock/pkg/mongox/mongotest"
)

// cursor is a reply with one batch.
func cursor(namespace string, documents ...any) bson.D {
	return bson.D{{Key: "ok", Value: 1}, {Key: "cursor", Value: bson.D{
		{Key: "id", Value: int64(0)}, {Key: "ns", Value: namespace}, {Key: "firstBatch", Value: append(bson.A{}, documents...)},
	}}}
}

func listed(name, kind string, options ...bson.E) bson.D {
	return bson.D{{Key: "name", Value: name}, {Key: "type", Value: kind}, {Key: "options", Value: append(bson.D{}, options...)}}
}

// sharded is an entry of config.collections.
func sharded(key bson.D, more ...bson.E) bson.D {
	return cursor("config.collections", append(bson.D{{Key: "_id", Value: "x"}, {Key: "key", Value: key}}, more...))
}

func TestLayout(t *testing.T) {
	t.Parallel()
	member := mongotest.Hello(bson.E{Key: "setName", Value: "rs0"})
	router := bson.D{{Key: "ok", Value: 1}, {Key: "msg", Value: "isdbgrid"}}
	byID := sharded(bson.D{{Key: "_id", Value: "hashed"}})
	none := cursor("config.collections")
	forbidden := bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 13}, {Key: "codeName", Value: "Unauthorized"}, {Key: "errmsg", Value: "not authorized on config"}}
	stats := bson.D{{Key: "ok", Value: 1}, {Key: "sharded", Value: false}}
	byIDOnly := bson.D{{Key: "v", Value: 2}, {Key: "key", Value: bson.D{{Key: "_id", Value: 1}}}, {Key: "name", Value: "_id_"}}
	expiring := bson.D{{Key: "v", Value: 2}, {Key: "key", Value: bson.D{{Key: "at", Value: 1}}}, {Key: "name", Value: "at_1"}, {Key: "expireAfterSeconds", Value: 60}}
	indexes := cursor("shop.users", byIDOnly)
	plain := cursor("shop.$cmd.listCollections", listed("users", "collection"))
	with := func(key string, value any) bson.D {
		return cursor("shop.$cmd.listCollections", listed("users", "collection", bson.E{Key: key, Value: value}))
	}
	for name, test := range map[string]struct {
		replies []bson.D
		// want are parts of the problems; none if there are none.
		want []string
	}{
		"replica set":                   {[]bson.D{plain, indexes, member}, nil},
		"default collation":             {[]bson.D{with("collation", bson.D{{Key: "locale", Value: "en"}, {Key: "strength", Value: 2}}), indexes, member}, []string{"shop.users has a default collation"}},
		"encrypted fields":              {[]bson.D{with("encryptedFields", bson.D{}), indexes, member}, []string{"shop.users has encrypted fields"}},
		"clustered with a TTL":          {[]bson.D{with("expireAfterSeconds", int64(60)), member}, []string{"shop.users has a TTL (its option expireAfterSeconds)"}},
		"TTL index":                     {[]bson.D{plain, cursor("shop.users", byIDOnly, expiring), member}, []string{"shop.users has a TTL (its index at_1)"}},
		"view and capped":               {[]bson.D{cursor("shop.$cmd.listCollections", listed("users", "view"), listed("orders", "collection", bson.E{Key: "capped", Value: true})), member}, []string{"shop.users is a view", "shop.orders is a capped collection"}},
		"not sharded":                   {[]bson.D{plain, indexes, router, none, none, none}, nil},
		"sharded by _id":                {[]bson.D{plain, indexes, router, byID, byID, byID}, nil},
		"sharded by another field":      {[]bson.D{plain, indexes, router, none, sharded(bson.D{{Key: "customer", Value: 1}}), byID}, []string{`shop.users is sharded by {"customer":1}`}},
		"sharded by _id and more":       {[]bson.D{plain, indexes, router, none, sharded(bson.D{{Key: "_id", Value: 1}, {Key: "customer", Value: 1}}), none}, []string{"shop.users is sharded by"}},
		"dropped, and moved unsharded":  {[]bson.D{plain, indexes, router, none, sharded(bson.D{{Key: "customer", Value: 1}}, bson.E{Key: "dropped", Value: true}), sharded(bson.D{{Key: "x", Value: 1}}, bson.E{Key: "unsplittable", Value: true})}, nil},
		"configuration is not readable": {[]bson.D{plain, indexes, router, forbidden, stats, forbidden, stats, forbidden, stats}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := mongotest.NewReplies(t, test.replies...)
			err := CheckLayout(t.Context(), server.Client.Database("shop"), []string{"users", "orders"})
			if (len(test.want) > 0) != errors.Is(err, ErrLayout) || len(test.want) == 0 && err != nil {
				t.Fatalf("error %v", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in %v", want, err)
				}
			}
			if err != nil && strings.Count(err.Error(), ErrLayout.Error()) != len(test.want) {
				t.Errorf("it says %v", err)
			}
		})
	}
}

// TestNameWithTheDatabaseIsTooLong: a promotion could never rename a collection to it.
func TestNameWithTheDatabaseIsTooLong(t *testing.T) {
	t.Parallel()
	server := mongotest.NewReplies(t, cursor("shop.$cmd.listCollections"), mongotest.Hello(bson.E{Key: "setName", Value: "rs0"}))
	database := strings.Repeat("d", 60)
	err := CheckLayout(t.Context(), server.Client.Database(database), []string{strings.Repeat("a", 174), strings.Repeat("b", 175)})
	if !errors.Is(err, ErrLayout) || !strings.Contains(err.Error(), "bbb has a name of 236 bytes") || strings.Contains(err.Error(), "aaa has") {
		t.Errorf("error %v", err)
	}
}

func TestSearchIndexes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reply bson.D
		want  []string
		fails bool
	}{
		"two":               {cursor("shop.users", bson.D{{Key: "name", Value: "default"}}, bson.D{{Key: "name", Value: "vectors"}}), []string{"default", "vectors"}, false},
		"not Atlas":         {bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 31082}, {Key: "errmsg", Value: "Atlas Search requires additional configuration"}}, nil, false},
		"unknown stage":     {bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 40324}, {Key: "errmsg", Value: "Unrecognized pipeline stage name"}}, nil, false},
		"no primary as yet": {bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 189}, {Key: "errmsg", Value: "primary stepped down"}}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := mongotest.NewReplies(t, test.reply, test.reply)
			got, err := SearchIndexes(t.Context(), server.Client.Database("shop"), "users")
			if !slices.Equal(got, test.want) || (err != nil) != test.fails {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}
