package mongox_test

import (
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

func TestEventStoreMustNotBeACollectionOfPenstock(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		collection string
		change     func(*mongox.ReadModelsConfig)
		// variable names the setting that must change; empty if nothing is wrong.
		variable string
	}{
		"events":                              {"events", nil, ""},
		"watermarks":                          {"watermarks", nil, "PENSTOCK_READMODELS_DATABASE"},
		"parked":                              {"parked", nil, "PENSTOCK_STATE_DATABASE"},
		"checkpoints":                         {"checkpoints", nil, "PENSTOCK_STATE_DATABASE"},
		"quarantine":                          {"quarantine", nil, "PENSTOCK_STATE_DATABASE"},
		"leases":                              {"leader_leases", nil, "PENSTOCK_STATE_DATABASE"},
		"state in another database":           {"parked", func(c *mongox.ReadModelsConfig) { c.StateDatabase = "state" }, ""},
		"read models in another database":     {"watermarks", func(c *mongox.ReadModelsConfig) { c.ReadModelsDatabase = "views" }, ""},
		"state on another server":             {"parked", func(c *mongox.ReadModelsConfig) { c.StateURI = "mongodb://other" }, ""},
		"state on the same server, as a user": {"parked", func(c *mongox.ReadModelsConfig) { c.StateURI = "mongodb://me:secret@ALL/admin" }, "PENSTOCK_STATE_DATABASE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := mongox.ReadModelsConfig{Config: valid(), ReadModelsDatabase: "penstock"}
			c.EventsCollection = test.collection
			if test.change != nil {
				test.change(&c)
			}
			err := c.Check()
			if test.variable == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.variable) || strings.Contains(err.Error(), "\n") {
				t.Errorf("it says %v", err)
			}
		})
	}
}
