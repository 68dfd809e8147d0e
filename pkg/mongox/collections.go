package mongox

import (
	"fmt"
	"slices"
	"strings"
)

// The collections that the services keep for themselves: beside the read models,
// and in the state's database.
var (
	readModelsOwn = []string{"watermarks", "pipeline_owners"}
	stateOwn      = []string{"checkpoints", "leader_leases", "quarantine", "parked", "pipeline_owners", "projections", "projectors", "jobs", "job_ranges", "findings", "reconciliations", "audit"}
)

// OwnCollections are all of them: all stores may share a database.
func OwnCollections() []string { return slices.Concat(readModelsOwn, stateOwn) }

// SameDatabase reports whether two stores are one database: of one name, on the same
// hosts, whoever logs in there.
func (s Store) SameDatabase(other Store) bool {
	return s.Database == other.Database && hosts(s.URI) == hosts(other.URI)
}

// hosts are those of a connection string, which stand after the credentials and
// before the database. Their case means nothing.
func hosts(uri string) string {
	_, rest, _ := strings.Cut(uri, "://")
	rest, _, _ = strings.Cut(rest, "/")
	return strings.ToLower(rest[strings.LastIndex(rest, "@")+1:])
}

// checkEvents refuses an event store in a collection of the services' own, of which
// there are some in a store whose database the variable names.
func checkEvents(events, store Store, own []string, variable string) []error {
	if !events.SameDatabase(store) || !slices.Contains(own, events.Collection) {
		return nil
	}
	return []error{fmt.Errorf("PENSTOCK_EVENTS_COLLECTION is %s, which Penstock itself keeps in database %s: set %s to another database", events.Collection, store.Database, variable)}
}
