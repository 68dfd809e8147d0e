package broker

import "time"

// Limits of the service's Standard tier (its documented quotas).
const (
	DefaultLockDuration     = time.Minute
	DefaultMaxDeliveryCount = 10
	DefaultMaxMessageSize   = 256 << 10
	DefaultDedupWindow      = 10 * time.Minute
	MinDedupWindow          = 20 * time.Second
	MaxDedupWindow          = 7 * 24 * time.Hour
	MaxLockDuration         = 5 * time.Minute
	MaxMaxDeliveryCount     = 2000
	MaxIDLength             = 128
	MaxEntityName           = 260
	MaxSubscriptionName     = 50
	MaxRuleName             = 50
	MaxBatchMessages        = 4500
	partitions              = 16
)

// IntakeConfig configures how an entity accepts messages.
type IntakeConfig struct {
	// DuplicateDetectionWindow is how long a message id is remembered. Zero disables
	// duplicate detection.
	DuplicateDetectionWindow time.Duration

	// Partitioned spreads the entity over partitions by partition key.
	Partitioned bool

	// MaxMessageSize is the largest encoded message, in bytes.
	MaxMessageSize uint64

	// MaxBatchSize is the largest encoded batch, in bytes. Zero means MaxMessageSize.
	MaxBatchSize uint64

	// DefaultTTL bounds how long messages live, zero: forever.
	DefaultTTL time.Duration

	// Disabled refuses all sends.
	Disabled bool

	// Record is how many of the last accepted messages are kept for inspection.
	Record int
}

// QueueConfig configures how a queue or subscription keeps and delivers messages.
type QueueConfig struct {
	// RequiresSession makes messages available by session only.
	RequiresSession bool

	// LockDuration is how long a message or session stays locked.
	LockDuration time.Duration

	// MaxDeliveryCount is the number of deliveries after which a message is dead-lettered
	// if it was not completed.
	MaxDeliveryCount uint32

	// DefaultTTL bounds how long messages live, zero: forever.
	DefaultTTL time.Duration

	// DeadLetterExpired dead-letters messages that expire, instead of dropping
	// them.
	DeadLetterExpired bool

	// Disabled refuses all receivers.
	Disabled bool

	// ForwardTo is the queue or topic to which messages are forwarded instead of being
	// kept, or "". ForwardDeadLettersTo is the same for dead letters.
	ForwardTo            string
	ForwardDeadLettersTo string
}

// TopicConfig declares a topic.
type TopicConfig struct {
	Name string
	IntakeConfig

	Subscriptions []SubscriptionConfig
}

// SubscriptionConfig declares a subscription of a topic.
type SubscriptionConfig struct {
	Name string
	QueueConfig

	// Rules select messages: nil selects all messages, an empty slice selects none.
	Rules []Rule
}

// Rule selects messages for a subscription. A rule with an action selects its own copy of
// the message.
type Rule struct {
	Name   string
	Filter Filter
	Action Action // nil: none
}

// StandaloneConfig declares a queue that messages are sent to directly.
type StandaloneConfig struct {
	Name string
	IntakeConfig
	QueueConfig
}

func (c *IntakeConfig) setIntakeDefaults() {
	if c.MaxMessageSize == 0 {
		c.MaxMessageSize = DefaultMaxMessageSize
	}
}

func (c *QueueConfig) setQueueDefaults() {
	if c.LockDuration == 0 {
		c.LockDuration = DefaultLockDuration
	}

	if c.MaxDeliveryCount == 0 {
		c.MaxDeliveryCount = DefaultMaxDeliveryCount
	}
}
