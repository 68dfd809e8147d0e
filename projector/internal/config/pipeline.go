package config

import "strings"

// Pipeline identifies a pipeline, for the catalog, the registry and the owners of names.
type Pipeline struct {
	Namespace, Topic, Subscription string
	// EventStore is the database and the collection of the events.
	EventStore string
}

// Pipeline returns the pipeline of the configured subscription.
func (c *Config) Pipeline() Pipeline {
	events := c.MongoDB.Events()
	return Pipeline{
		Namespace: strings.ToLower(c.ServiceBus.Host()), Topic: strings.ToLower(c.ServiceBus.Topic), Subscription: strings.ToLower(c.ServiceBus.Subscription),
		EventStore: events.Database + "." + events.Collection,
	}
}

// Drained identifies the subscription.
func (p Pipeline) Drained() string { return p.Namespace + "/" + p.Topic + "/" + p.Subscription }

// String returns the pipeline as one text.
func (p Pipeline) String() string { return p.Drained() + p.suffix() }

func (p Pipeline) suffix() string { return "/" + p.EventStore }

// SameEvents reports whether the pipeline with that text has the same event store.
func (p Pipeline) SameEvents(pipeline string) bool { return strings.HasSuffix(pipeline, p.suffix()) }
