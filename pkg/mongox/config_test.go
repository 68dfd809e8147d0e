package mongox_test

import (
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

func valid() mongox.Config {
	return mongox.Config{URI: "mongodb://all", EventsDatabase: "penstock", EventsCollection: "events", StateDatabase: "penstock"}
}

func TestStores(t *testing.T) {
	t.Parallel()
	c := mongox.ReadModelsConfig{Config: valid(), ReadModelsDatabase: "views"}
	if c.Validate() != nil || c.Events() != (mongox.Store{URI: "mongodb://all", Database: "penstock", Collection: "events"}) ||
		c.State() != (mongox.Store{URI: "mongodb://all", Database: "penstock"}) || c.ReadModels() != (mongox.Store{URI: "mongodb://all", Database: "views"}) {
		t.Errorf("one URI: %+v", c)
	}
	c.EventsURI, c.StateURI, c.ReadModelsURI = "mongodb://e", "mongodb://s", "mongodb://r"
	if c.Events().URI != c.EventsURI || c.State().URI != c.StateURI || c.ReadModels().URI != c.ReadModelsURI {
		t.Errorf("own URIs: %+v", c)
	}
	c.URI = ""
	if err := c.Validate(); err != nil {
		t.Errorf("own URIs alone: %v", err)
	}
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*mongox.ReadModelsConfig)
		want   []string
	}{
		"nothing set": {func(c *mongox.ReadModelsConfig) { c.URI = "" }, []string{"MONGODB_URI is not set", "PENSTOCK_READMODELS_MONGODB_URI is not set"}},
		"events missing": {func(c *mongox.ReadModelsConfig) {
			c.URI, c.StateURI, c.ReadModelsURI = "", "mongodb://s", "mongodb://r"
		}, []string{"PENSTOCK_EVENTS_MONGODB_URI is not set"}},
		"state missing": {func(c *mongox.ReadModelsConfig) {
			c.URI, c.EventsURI, c.ReadModelsURI = "", "mongodb://s", "mongodb://r"
		}, []string{"PENSTOCK_STATE_MONGODB_URI is not set"}},
		"malformed URIs": {
			func(c *mongox.ReadModelsConfig) { c.URI, c.EventsURI, c.StateURI, c.ReadModelsURI = "a", "b", "c", "d" },
			[]string{"MONGODB_URI is no", "PENSTOCK_EVENTS_MONGODB_URI is no", "PENSTOCK_STATE_MONGODB_URI is no", "PENSTOCK_READMODELS_MONGODB_URI is no"},
		},
		"two URIs in a file": {
			func(c *mongox.ReadModelsConfig) {
				c.URI = "mongodb://u:p@h/?replicaSet=rs0&directConnection=true\nmongodb://user:s3cret@h2/?replicaSet=rs0"
			},
			[]string{"MONGODB_URI cannot be used: a line break"},
		},
		"two URIs in a line": {
			func(c *mongox.ReadModelsConfig) {
				c.URI = "mongodb://u:pass@h/?replicaSet=rs0&directConnection=true mongodb://user:s3cret@h2/?replicaSet=rs0"
			},
			[]string{"MONGODB_URI is not a MongoDB connection string"},
		},
		"names": {
			func(c *mongox.ReadModelsConfig) {
				c.EventsDatabase, c.StateDatabase, c.ReadModelsDatabase, c.EventsCollection = "", "a.b", strings.Repeat("x", 64), "system.views"
			},
			[]string{"PENSTOCK_EVENTS_DATABASE is", "PENSTOCK_STATE_DATABASE is", "PENSTOCK_READMODELS_DATABASE is", "PENSTOCK_EVENTS_COLLECTION is"},
		},
	} {
		config := mongox.ReadModelsConfig{Config: valid(), ReadModelsDatabase: "penstock"}
		c.change(&config)
		err := config.Validate()
		if err == nil || len(strings.Split(err.Error(), "\n")) != len(c.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q lacks %q", name, err, want)
			}
		}
	}
}
