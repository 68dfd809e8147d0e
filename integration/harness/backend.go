package harness

// Backend is a running event store and a running broker.
type Backend interface {
	// MongoURI is the connection string of the replica set.
	MongoURI() string
	// Bus says how to reach the broker.
	Bus() Bus
	// Close ends what the backend started.
	Close() error
}

// Bus names a topic with a session-enabled subscription, and how to reach them.
type Bus struct {
	ConnectionString    string
	Topic, Subscription string
}
