package config

import (
	"errors"
	"fmt"
)

// CheckReadModels returns an error if a collection of read models is the event store,
// whose events would be overwritten.
func (c *Config) CheckReadModels(collections []string) error {
	var problems []error
	events := c.MongoDB.Events()
	for _, collection := range collections {
		if collection == events.Collection && c.MongoDB.ReadModels().SameDatabase(events) {
			problems = append(problems, fmt.Errorf("collection %s of database %s is the event store (PENSTOCK_EVENTS_COLLECTION): give the projection another collection, or the read models another database (PENSTOCK_READMODELS_DATABASE)", collection, events.Database))
		}
	}
	return errors.Join(problems...)
}
