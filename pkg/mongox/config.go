package mongox

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/penstock-cdc/penstock/pkg/secret"
)

// Config configures the event store and the state. Both services embed it; the tags are
// kong's. The zero value is invalid.
type Config struct {
	URI              secret.Text `name:"mongodb-uri" env:"MONGODB_URI" placeholder:"URI" help:"MongoDB connection string of every store that has none of its own."`
	URIFile          string      `name:"mongodb-uri-file" env:"MONGODB_URI_FILE" placeholder:"FILE" help:"File with MONGODB_URI, instead of the variable. If its user or password changes, the process uses the new ones without a restart."`
	EventsURI        secret.Text `name:"events-mongodb-uri" env:"PENSTOCK_EVENTS_MONGODB_URI" placeholder:"URI" help:"Connection string of the event store; without it, MONGODB_URI."`
	EventsURIFile    string      `name:"events-mongodb-uri-file" env:"PENSTOCK_EVENTS_MONGODB_URI_FILE" placeholder:"FILE" help:"File with PENSTOCK_EVENTS_MONGODB_URI, instead of the variable. If its user or password changes, the process uses the new ones without a restart."`
	EventsDatabase   string      `name:"events-database" env:"PENSTOCK_EVENTS_DATABASE" default:"penstock" placeholder:"NAME" help:"Database of the event store."`
	EventsCollection string      `name:"events-collection" env:"PENSTOCK_EVENTS_COLLECTION" default:"events" placeholder:"NAME" help:"Collection of the event store."`
	StateURI         secret.Text `name:"state-mongodb-uri" env:"PENSTOCK_STATE_MONGODB_URI" placeholder:"URI" help:"Connection string of the state (checkpoints, leases, quarantine, parked); without it, MONGODB_URI."`
	StateURIFile     string      `name:"state-mongodb-uri-file" env:"PENSTOCK_STATE_MONGODB_URI_FILE" placeholder:"FILE" help:"File with PENSTOCK_STATE_MONGODB_URI, instead of the variable. If its user or password changes, the process uses the new ones without a restart."`
	StateDatabase    string      `name:"state-database" env:"PENSTOCK_STATE_DATABASE" default:"penstock" placeholder:"NAME" help:"Database of the state."`

	// Dialer opens the connections to every store; nil means TCP. A process in a test has
	// one of its own, so that the test can break and delay its connections.
	Dialer options.ContextDialer `kong:"-"`
}

// ReadModelsConfig is [Config] with the read models. The projector embeds it.
type ReadModelsConfig struct {
	Config `embed:""`

	ReadModelsURI      secret.Text `name:"readmodels-mongodb-uri" env:"PENSTOCK_READMODELS_MONGODB_URI" placeholder:"URI" help:"Connection string of the read models; without it, MONGODB_URI."`
	ReadModelsURIFile  string      `name:"readmodels-mongodb-uri-file" env:"PENSTOCK_READMODELS_MONGODB_URI_FILE" placeholder:"FILE" help:"File with PENSTOCK_READMODELS_MONGODB_URI, instead of the variable. If its user or password changes, the process uses the new ones without a restart."`
	ReadModelsDatabase string      `name:"readmodels-database" env:"PENSTOCK_READMODELS_DATABASE" default:"penstock" placeholder:"NAME" help:"Database of the read models."`
}

// Store is a database, and for the event store a collection.
type Store struct {
	// URI is never empty in a valid configuration; it may hold a password.
	URI string
	// File is the file that URI comes from; empty if it comes from a variable.
	File     string
	Database string
	// Collection is set for the event store only.
	Collection string
}

// String gives the store without its password.
func (s Store) String() string {
	at := Redact(s.URI) + " " + s.Database
	if s.Collection != "" {
		at += "." + s.Collection
	}
	return at
}

// Events is the event store.
func (c Config) Events() Store {
	return c.store(c.EventsURI, c.EventsURIFile, c.EventsDatabase, c.EventsCollection)
}

// State is the store of checkpoints, leases, quarantine and parked aggregates.
func (c Config) State() Store {
	return c.store(c.StateURI, c.StateURIFile, c.StateDatabase, "")
}

// ReadModels is the store of the read models.
func (c ReadModelsConfig) ReadModels() Store {
	return c.store(c.ReadModelsURI, c.ReadModelsURIFile, c.ReadModelsDatabase, "")
}

// store is a store with a connection string of its own, or with that of all stores.
func (c Config) store(uri secret.Text, file, database, collection string) Store {
	if uri == "" {
		uri, file = c.URI, c.URIFile
	}
	return Store{URI: string(uri), File: file, Database: database, Collection: collection}
}

// UUIDRepresentation is the option uuidRepresentation of the event store's connection string, or
// empty. The driver ignores the option, because Go has no type for a UUID.
func (c Config) UUIDRepresentation() string {
	_, options, _ := strings.Cut(c.Events().URI, "?")
	for option := range strings.FieldsFuncSeq(options, func(r rune) bool { return r == '&' || r == ';' }) {
		if name, value, _ := strings.Cut(option, "="); strings.EqualFold(name, "uuidRepresentation") {
			return value
		}
	}
	return ""
}

// AfterApply reads the connection strings that are in files. kong calls it.
func (c *Config) AfterApply() error {
	return errors.Join(c.URI.FromFile("MONGODB_URI", c.URIFile),
		c.EventsURI.FromFile("PENSTOCK_EVENTS_MONGODB_URI", c.EventsURIFile),
		c.StateURI.FromFile("PENSTOCK_STATE_MONGODB_URI", c.StateURIFile))
}

// AfterApply reads the connection string that is in a file. kong calls it beside that of Config.
func (c *ReadModelsConfig) AfterApply() error {
	return c.ReadModelsURI.FromFile("PENSTOCK_READMODELS_MONGODB_URI", c.ReadModelsURIFile)
}

// Check reports every problem at once, each naming its variable.
func (c Config) Check() error { return errors.Join(c.problems()...) }

// Check reports every problem at once, each naming its variable.
func (c ReadModelsConfig) Check() error {
	problems := c.problems()
	problems = append(problems, checkURI("PENSTOCK_READMODELS_MONGODB_URI", string(c.ReadModelsURI))...)
	if c.URI == "" && c.ReadModelsURI == "" {
		problems = append(problems, errors.New("PENSTOCK_READMODELS_MONGODB_URI is not set: set it, or MONGODB_URI for all stores"))
	}
	problems = append(problems, checkDatabase("PENSTOCK_READMODELS_DATABASE", c.ReadModelsDatabase)...)
	return errors.Join(append(problems, checkEvents(c.Events(), c.ReadModels(), readModelsOwn, "PENSTOCK_READMODELS_DATABASE")...)...)
}

func (c Config) problems() []error {
	var problems []error
	problems = append(problems, checkURI("MONGODB_URI", string(c.URI))...)
	problems = append(problems, checkURI("PENSTOCK_EVENTS_MONGODB_URI", string(c.EventsURI))...)
	problems = append(problems, checkURI("PENSTOCK_STATE_MONGODB_URI", string(c.StateURI))...)
	if c.URI == "" {
		switch {
		case c.EventsURI == "" && c.StateURI == "":
			problems = append(problems, errors.New("MONGODB_URI is not set: set it to the connection string of a replica set, such as mongodb://host:27017/?replicaSet=rs0"))
		case c.EventsURI == "":
			problems = append(problems, errors.New("PENSTOCK_EVENTS_MONGODB_URI is not set: set it, or MONGODB_URI for all stores"))
		case c.StateURI == "":
			problems = append(problems, errors.New("PENSTOCK_STATE_MONGODB_URI is not set: set it, or MONGODB_URI for all stores"))
		}
	}
	problems = append(problems, checkDatabase("PENSTOCK_EVENTS_DATABASE", c.EventsDatabase)...)
	problems = append(problems, checkDatabase("PENSTOCK_STATE_DATABASE", c.StateDatabase)...)
	if c.EventsCollection == "" || strings.HasPrefix(c.EventsCollection, "system.") || strings.HasPrefix(c.EventsCollection, ".") || strings.ContainsAny(c.EventsCollection, "$\x00") {
		problems = append(problems, fmt.Errorf("PENSTOCK_EVENTS_COLLECTION is %q, which is not a valid collection name: use a name without $ that does not start with a dot or \"system.\"", c.EventsCollection))
	}
	return append(problems, checkEvents(c.Events(), c.State(), stateOwn, "PENSTOCK_STATE_DATABASE")...)
}

func checkURI(variable, uri string) []error {
	if uri == "" {
		return nil
	}
	_, err := clientOptions(uri, Options{})
	lookup, unresolved := errors.AsType[*net.DNSError](err)
	_, unreadable := errors.AsType[*fs.PathError](err)
	switch {
	case unresolved && lookup.IsNotFound:
		return []error{fmt.Errorf("%s has a host that was not found in the DNS: %w: correct the name after mongodb+srv://, or its SRV record", variable, err)}
	case unresolved:
		return []error{fmt.Errorf("%s has a host that could not be looked up in the DNS: %w: check the DNS of this machine, and repeat", variable, err)}
	case unreadable:
		return []error{fmt.Errorf("%s names a file that cannot be read: %w: correct the path, or mount the file", variable, err)}
	case errors.Is(err, ErrNotMongoDB), errors.Is(err, errControl):
		return []error{fmt.Errorf("%s cannot be used: %w", variable, err)}
	case errors.Is(err, errOption):
		return []error{fmt.Errorf("%s has an %w", variable, err)}
	case err != nil:
		return []error{fmt.Errorf("%s is not a MongoDB connection string: %w", variable, err)}
	}
	return nil
}

// checkDatabase checks a name against the server's rules for a database:
// https://www.mongodb.com/docs/manual/reference/limits/#naming-restrictions
func checkDatabase(variable, name string) []error {
	if name == "" || len(name) > 63 || strings.ContainsAny(name, "/\\. \"$*<>:|?\x00") {
		return []error{fmt.Errorf("%s is %q, which is not a valid database name: use 1 to 63 letters, digits, - and _", variable, name)}
	}
	// Change streams and transactions refuse these, and local is not replicated.
	if name == "admin" || name == "config" || name == "local" {
		return []error{fmt.Errorf("%s is %q, a database of the server itself: use another one", variable, name)}
	}
	return nil
}
