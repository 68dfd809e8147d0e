package config_test

import (
	"maps"
	"strings"
	"testing"
)

func TestReadModelsInTheEventStoreAreRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		env     map[string]string
		refused bool
	}{
		"one database":       {nil, true},
		"another collection": {map[string]string{"PENSTOCK_EVENTS_COLLECTION": "log"}, false},
		"another database":   {map[string]string{"PENSTOCK_READMODELS_DATABASE": "views"}, false},
		"another cluster":    {map[string]string{"PENSTOCK_READMODELS_MONGODB_URI": "mongodb://other:27017/?replicaSet=rs0"}, false},
		"another user":       {map[string]string{"PENSTOCK_READMODELS_MONGODB_URI": "mongodb://views:secret@127.0.0.1:27017/admin?replicaSet=rs0"}, true},
		"other options":      {map[string]string{"PENSTOCK_EVENTS_MONGODB_URI": "mongodb://127.0.0.1:27017/?replicaSet=rs0&retryWrites=true"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := minimal()
			maps.Copy(env, test.env)
			c, problems, err := parse(env)
			if err != nil {
				t.Fatalf("%v\n%s", err, problems)
			}
			err = c.CheckReadModels([]string{"users", "events"})
			if test.refused != (err != nil) {
				t.Errorf("error %v, refused: %t", err, test.refused)
			}
			if err != nil && (!strings.Contains(err.Error(), "collection events of database penstock") || strings.Contains(err.Error(), "\n")) {
				t.Errorf("it says %v", err)
			}
		})
	}
}
