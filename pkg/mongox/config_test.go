package mongox_test

import (
	"strings"
	"testing"

	"github.com/penstock-cdc/penstock/pkg/mongox"
	"github.com/penstock-cdc/penstock/pkg/secret"
)

func valid() mongox.Config {
	return mongox.Config{URI: "mongodb://all", EventsDatabase: "penstock", EventsCollection: "events", StateDatabase: "penstock"}
}

func TestStores(t *testing.T) {
	t.Parallel()
	c := mongox.ReadModelsConfig{Config: valid(), ReadModelsDatabase: "views"}
	if c.Check() != nil || c.Events() != (mongox.Store{URI: "mongodb://all", Database: "penstock", Collection: "events"}) ||
		c.State() != (mongox.Store{URI: "mongodb://all", Database: "penstock"}) || c.ReadModels() != (mongox.Store{URI: "mongodb://all", Database: "views"}) {
		t.Errorf("one URI: %+v", c)
	}
	c.EventsURI, c.StateURI, c.ReadModelsURI = "mongodb://e", "mongodb://s", "mongodb://r"
	if c.Events().URI != string(c.EventsURI) || c.State().URI != string(c.StateURI) || c.ReadModels().URI != string(c.ReadModelsURI) {
		t.Errorf("own URIs: %+v", c)
	}
	c.URI = ""
	if err := c.Check(); err != nil {
		t.Errorf("own URIs alone: %v", err)
	}
}

func TestUUIDRepresentation(t *testing.T) {
	t.Parallel()
	for uri, want := range map[secret.Text]string{
		"mongodb://h/?replicaSet=rs0&UuidRepresentation=javaLegacy": "javaLegacy",
		"mongodb://h/?uuidRepresentation=standard&replicaSet=rs0":   "standard",
		"mongodb://h/uuidRepresentation=javaLegacy":                 "",
		"mongodb://h": "",
	} {
		c := mongox.Config{EventsURI: uri, URI: "mongodb://other/?uuidRepresentation=pythonLegacy"}
		if got := c.UUIDRepresentation(); got != want {
			t.Errorf("%s: got %q", uri, got)
		}
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
		"unknown host": {
			func(c *mongox.ReadModelsConfig) {
				// No name in the DNS has a label of 64 characters, so this needs no network.
				c.URI = secret.Text("mongodb+srv://u:s3cret@" + strings.Repeat("x", 64) + ".example.org")
			},
			[]string{"MONGODB_URI has a host that was not found in the DNS: error parsing uri: lookup _mongodb._tcp.xxx"},
		},
		"directory instead of a file": {
			func(c *mongox.ReadModelsConfig) { c.URI = "mongodb://u:s3cret@h/?tls=true&tlsCAFile=/" },
			[]string{"MONGODB_URI names a file that cannot be read: read /: is a directory: correct"},
		},
		"missing file": {
			func(c *mongox.ReadModelsConfig) {
				c.URI = "mongodb://u:s3cret@h/?tls=true&tlsCertificateKeyFile=/missing.pem"
			},
			[]string{"MONGODB_URI names a file that cannot be read: open /missing.pem: no such file or directory: correct"},
		},
		"databases of the server": {
			func(c *mongox.ReadModelsConfig) {
				c.EventsDatabase, c.StateDatabase, c.ReadModelsDatabase = "local", "admin", "config"
			},
			[]string{`PENSTOCK_EVENTS_DATABASE is "local", a database`, `PENSTOCK_STATE_DATABASE is "admin", a database`, `PENSTOCK_READMODELS_DATABASE is "config", a database`},
		},
		"names": {
			func(c *mongox.ReadModelsConfig) {
				c.EventsDatabase, c.StateDatabase, c.ReadModelsDatabase, c.EventsCollection = "", "a.b", strings.Repeat("x", 64), "system.views"
			},
			[]string{"PENSTOCK_EVENTS_DATABASE is", "PENSTOCK_STATE_DATABASE is", "PENSTOCK_READMODELS_DATABASE is", "PENSTOCK_EVENTS_COLLECTION is"},
		},
		"collection with a dot at the beginning": {
			func(c *mongox.ReadModelsConfig) { c.EventsCollection = ".events" },
			[]string{`PENSTOCK_EVENTS_COLLECTION is ".events", which is not a valid collection name`},
		},
	} {
		config := mongox.ReadModelsConfig{Config: valid(), ReadModelsDatabase: "penstock"}
		c.change(&config)
		err := config.Check()
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
