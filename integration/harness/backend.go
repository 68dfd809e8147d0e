package harness

import "time"

// Backend is a running event store and a running broker, for one pipeline.
type Backend interface {
	// MongoURI is the connection string of the replica set.
	MongoURI() string
	// Databases are the names that the pipeline's services must use.
	Databases() Databases
	// Bus returns how to reach the broker.
	Bus() Bus
	// MaxConnections bounds the AMQP connections of all processes together; 0 means no
	// bound.
	MaxConnections() int
	// Close stops what the backend started, and removes what it made.
	Close() error
}

// Bus names a topic with a session-enabled subscription, and how to reach them.
type Bus struct {
	ConnectionString    string
	Topic, Subscription string
}

// Databases are the names of a pipeline's databases.
type Databases struct {
	Events, State, ReadModels string
}

// TopicOptions are the options of a test's topic on any backend. The zero value is a topic
// as a small production has it.
type TopicOptions struct {
	// DuplicateDetectionWindow is how long the topic remembers message ids. 0 means 5
	// minutes, the longest window of Microsoft's emulator; a negative value switches
	// duplicate detection off.
	DuplicateDetectionWindow time.Duration
}

// Backlog counts the messages of the pipeline's subscription.
type Backlog struct {
	// Active are the messages that are not settled, including locked ones.
	Active int
	// DeadLettered are the messages in the dead-letter queue.
	DeadLettered int
}
