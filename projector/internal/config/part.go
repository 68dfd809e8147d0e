package config

import "errors"

// Part is a part of the configuration. Commands need only some parts, and the service
// needs all: see [Config.ValidateParts]. Parts are combined with |.
type Part int

// The parts.
const (
	// PartMongoDB is the event store, the state and the read models.
	PartMongoDB Part = 1 << iota
	PartServiceBus
	PartProjections
	// PartFields is the names of an event's fields.
	PartFields
	partSessions
	partBacklog
	// PartHistory is how read models are built, verified and reconciled.
	PartHistory
	partProcess

	// PartAll is the configuration of the service.
	PartAll = 1<<iota - 1
)

// ValidateParts returns all problems of the parts in one error. Each problem is a line
// that starts with the variable and ends with the remedy.
func (c *Config) ValidateParts(parts Part) error {
	var all []error
	for _, part := range []struct {
		part     Part
		validate func() error
	}{
		{PartMongoDB, c.MongoDB.Check},
		{PartServiceBus, c.ServiceBus.validate},
		{PartProjections, c.Projections.validate},
		{PartFields, c.EventFields().Check},
		{partSessions, c.validateSessions},
		{partBacklog, c.Backlog.validate},
		{PartHistory, c.History.validate},
		{partProcess, c.Process.validate},
		{partProcess, c.Tracing.Check},
	} {
		if parts&part.part != 0 {
			all = append(all, part.validate())
		}
	}
	return errors.Join(all...)
}
