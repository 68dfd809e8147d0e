package mongox

import (
	"fmt"
	"slices"
	"strings"
)

// The collections that belong to the services: in the database of the read models, and in
// that of the state.
var (
	readModelsOwn = []string{"watermarks", "pipeline_owners"}
	stateOwn      = []string{"checkpoints", "leader_leases", "quarantine", "parked", "pipeline_owners", "projections", "projectors", "jobs", "job_ranges", "findings", "audit", "process_health"}
)

// OwnCollections are the names of all of them, because all stores may share a database.
func OwnCollections() []string { return slices.Concat(readModelsOwn, stateOwn) }

// SameDatabase reports whether two stores are one database: the same name on the same
// hosts, whatever the credentials are.
func (s Store) SameDatabase(other Store) bool {
	return s.Database == other.Database && hosts(s.URI) == hosts(other.URI)
}

// hosts gives the hosts of a connection string, between the credentials and the database,
// in lower case.
func hosts(uri string) string {
	_, rest, _ := strings.Cut(uri, "://")
	rest, _, _ = strings.Cut(rest, "/")
	return strings.ToLower(rest[strings.LastIndex(rest, "@")+1:])
}

// checkEvents refuses an event store whose collection is one of the services' own
// collections in the same database. variable configures that database.
func checkEvents(events, store Store, own []string, variable string) []error {
	if !events.SameDatabase(store) || !slices.Contains(own, events.Collection) {
		return nil
	}
	return []error{fmt.Errorf("PENSTOCK_EVENTS_COLLECTION is %s, a collection in which Penstock keeps its own data in database %s: set %s to another database", events.Collection, store.Database, variable)}
}
