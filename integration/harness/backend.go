package harness

import "time"

// Backend is a running event store and a running broker, for one pipeline.
type Backend interface {
	// MongoURI is the connection string of the replica set.
	MongoURI() string
	// Databases are those that the pipeline's services are to use.
	Databases() Databases
	// Bus says how to reach the broker.
	Bus() Bus
	// MaxConnections bounds the AMQP connections of all processes together; 0 is no
	// bound.
	MaxConnections() int
	// Close ends what the backend started, and removes what it made.
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

// TopicOptions are what a test may want otherwise of its topic on any backend; the
// zero value is a topic as a small production has it.
type TopicOptions struct {
	// LockDuration is how long a session is locked; 0 means 30 s.
	LockDuration time.Duration
	// DuplicateDetectionWindow is how long the topic remembers message ids; 0 means
	// 5 minutes, the longest that Microsoft's emulator takes, a negative one that it
	// does not.
	DuplicateDetectionWindow time.Duration
}

// Backlog counts the messages of the pipeline's subscription.
type Backlog struct {
	// Active are those that are yet to be settled, locked ones among them.
	Active int
	// DeadLettered are those in its dead-letter queue.
	DeadLettered int
}
