package simulation

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestOverwrittenChangesAreFound(t *testing.T) {
	t.Parallel()
	entry := func(revision int64, state string) bson.Raw {
		d, err := bson.Marshal(bson.D{{Key: "revision", Value: revision}, {Key: "state", Value: state}})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for name, test := range map[string]struct {
		before, after bson.Raw
		found         bool
	}{
		"nothing was there":        {nil, entry(1, "a"), false},
		"nothing has changed":      {entry(2, "a"), entry(2, "a"), false},
		"the revision has risen":   {entry(2, "a"), entry(4, "b"), false},
		"two writes of a revision": {entry(2, "a"), entry(2, "b"), true},
		"an earlier revision":      {entry(2, "a"), entry(1, "b"), true},
	} {
		if got := overwritten(test.before, test.after); got != test.found {
			t.Errorf("%s: found is %v", name, got)
		}
	}
}
