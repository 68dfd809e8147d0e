package config

import "errors"

// Part is a part of the configuration. Commands need some parts, the service needs all:
// see [Config.ValidateParts]. Parts combine by |.
type Part int

// The parts.
const (
	// PartMongoDB are the event store, the state and the read models.
	PartMongoDB Part = 1 << iota
	PartServiceBus
	PartProjections
	// PartFields are the names of the fields of an event.
	PartFields
	PartSessions
	PartBacklog
	// PartHistory is what happens when a projection changes, and how read models are built.
	PartHistory
	PartProcess

	// PartAll is the configuration of the service.
	PartAll = 1<<iota - 1
)

// ValidateParts reports every problem of these parts at once: each is a line that starts
// with its variable and ends with the remedy.
func (c *Config) ValidateParts(parts Part) error {
	var all []error
	for _, part := range []struct {
		part     Part
		validate func() error
	}{
		{PartMongoDB, c.MongoDB.Validate},
		{PartServiceBus, c.ServiceBus.validate},
		{PartProjections, c.Projections.validate},
		{PartFields, c.Fields.Validate},
		{PartSessions, c.Sessions.validate},
		{PartBacklog, c.Backlog.validate},
		{PartHistory, c.History.validate},
		{PartProcess, c.Process.validate},
		{PartProcess, c.Tracing.Validate},
	} {
		if parts&part.part != 0 {
			all = append(all, part.validate())
		}
	}
	return errors.Join(all...)
}
