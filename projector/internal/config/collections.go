package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/penstock-cdc/penstock/pkg/mongox"
)

// readModelsOwn is the collection that Penstock keeps beside the read models.
const readModelsOwn = "watermarks"

// stateOwn are those of the state.
var stateOwn = []string{"checkpoints", "leader_leases", "quarantine", "parked"}

// CheckReadModels says which collections of read models are the event store itself:
// its events would be overwritten.
func (c *Config) CheckReadModels(collections []string) error {
	var problems []error
	events := c.MongoDB.Events()
	for _, collection := range collections {
		if collection == events.Collection && sameDatabase(c.MongoDB.ReadModels(), events) {
			problems = append(problems, fmt.Errorf("collection %s of database %s is the event store (PENSTOCK_EVENTS_COLLECTION): give the projection another collection, or the read models another database (PENSTOCK_READMODELS_DATABASE)", collection, events.Database))
		}
	}
	return errors.Join(problems...)
}

// checkEvents refuses an event store in a collection of Penstock's own.
func (c *Config) checkEvents() error {
	var p problems
	events := c.MongoDB.Events()
	own := func(store mongox.Store, collection, variable string) {
		p.require(events.Collection != collection || !sameDatabase(events, store),
			"PENSTOCK_EVENTS_COLLECTION is %s, which Penstock itself keeps in database %s: set %s to another database", collection, store.Database, variable)
	}
	own(c.MongoDB.ReadModels(), readModelsOwn, "PENSTOCK_READMODELS_DATABASE")
	for _, collection := range stateOwn {
		own(c.MongoDB.State(), collection, "PENSTOCK_STATE_DATABASE")
	}
	return errors.Join(p...)
}

// sameDatabase tells whether two stores are one database: of one name, on the same
// hosts, whoever logs in there.
func sameDatabase(a, b mongox.Store) bool {
	return a.Database == b.Database && hosts(a.URI) == hosts(b.URI)
}

// hosts are those of a connection string, which stand after the credentials and
// before the database. Their case means nothing.
func hosts(uri string) string {
	_, rest, _ := strings.Cut(uri, "://")
	rest, _, _ = strings.Cut(rest, "/")
	return strings.ToLower(rest[strings.LastIndex(rest, "@")+1:])
}
