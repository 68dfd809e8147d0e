package sbemu

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/penstock-cdc/penstock/integration/sbemu/internal/broker"
)

// Defaults of [Config].
const (
	DefaultAddress       = "127.0.0.1:0"
	DefaultPolicy        = "RootManageSharedAccessKey"
	DefaultKey           = "SAS_KEY_VALUE"
	DefaultAcceptTimeout = 65 * time.Second
)

// Config declares a namespace and its addresses. The zero value serves a namespace without
// entities on a free loopback port.
type Config struct {
	// Address is where to listen for plain AMQP, default [DefaultAddress].
	Address string

	// Listener is used instead of Address, if set. It may have no network behind it,
	// because the SDK accepts a dialer (ClientOptions.NewWebSocketConn).
	Listener net.Listener

	// TLS adds AMQP and the management API over TLS, if set.
	TLS *TLS

	// Premium makes the namespace one of the Premium tier: its management API allows
	// messages of up to 100 MB and refuses partitioned entities.
	Premium bool

	Topics []Topic
	Queues []Queue

	// Policies are the shared access keys of the namespace. The default is one policy with
	// all rights, with the name [DefaultPolicy] and the key [DefaultKey].
	Policies []Policy

	// AcceptTimeout is how long an accept of the next available session waits if the client
	// sets no timeout, default [DefaultAcceptTimeout].
	AcceptTimeout time.Duration

	// Limits bound the whole namespace. The zero value has no bounds.
	Limits Limits
}

// Limits are bounds of a whole namespace. A zero field is no bound.
type Limits struct {
	// Connections is how many connections may be open at the same time. A further one is
	// closed with amqp:resource-limit-exceeded.
	Connections int

	// Entities is how many queues and topics there may be.
	Entities int

	// TTL is the longest time to live of messages. It replaces longer ones.
	TTL time.Duration

	// DuplicateDetectionWindow is the longest one.
	DuplicateDetectionWindow time.Duration

	// Unpartitioned refuses partitioned entities.
	Unpartitioned bool
}

// EmulatorLimits returns the documented limits of Microsoft's Service Bus emulator
// (https://learn.microsoft.com/azure/service-bus-messaging/overview-emulator#usage-quotas).
func EmulatorLimits() Limits {
	return Limits{
		Connections: 10, Entities: 50, TTL: time.Hour, DuplicateDetectionWindow: 5 * time.Minute, Unpartitioned: true,
	}
}

// TLS declares addresses with a certificate. SDKs that connect without
// UseDevelopmentEmulator expect AMQP on port 5671 and the management API on 443.
type TLS struct {
	Config *tls.Config

	// Address is the address of AMQP over TLS; empty means none.
	Address string

	// AdminAddress is the address of the management API and of AMQP over WebSockets; empty
	// means none.
	AdminAddress string
}

// Policy is a shared access key with its rights.
type Policy struct {
	Name string
	Key  string

	// SecondaryKey is as valid as Key; empty means none. Clients switch to it while the
	// other key is regenerated.
	SecondaryKey string

	Listen bool
	Send   bool
	Manage bool // includes all rights
}

// Topic declares a topic.
type Topic struct {
	Name string

	// DuplicateDetectionWindow is how long message ids are remembered (the service allows
	// 20 s to 7 days). Zero means that duplicates are not detected.
	DuplicateDetectionWindow time.Duration

	// Partitioned spreads the topic over 16 partitions, with the service's rules for them.
	// A batch must have one session or partition key. With duplicate detection, batches are
	// refused.
	Partitioned bool

	// MaxMessageSize is the largest message in bytes, default 256 KiB.
	MaxMessageSize uint64

	// MaxBatchSize is the largest batch in bytes, default MaxMessageSize.
	MaxBatchSize uint64

	// DefaultTTL is the longest time to live of messages; zero means unlimited.
	DefaultTTL time.Duration

	// Disabled refuses all sends with com.microsoft:entity-disabled.
	Disabled bool

	// Record is how many of the last accepted messages [Server.Accepted] returns; zero
	// means none.
	Record int

	Subscriptions []Subscription
}

// Subscription declares a subscription of a topic.
type Subscription struct {
	Name string

	// RequiresSession makes messages available only by session.
	RequiresSession bool

	// LockDuration is how long messages and sessions are locked, default 1
	// minute, at most 5.
	LockDuration time.Duration

	// MaxDeliveryCount is how often a message is delivered before it is
	// dead-lettered, default 10, at most 2000.
	MaxDeliveryCount uint32

	// DefaultTTL is the longest time to live of messages; zero means the topic's.
	DefaultTTL time.Duration

	// DeadLetterExpired dead-letters expired messages; otherwise they are
	// dropped.
	DeadLetterExpired bool

	// Disabled refuses all receivers with com.microsoft:entity-disabled.
	Disabled bool

	// Rules select messages; one matching rule is enough. Without rules, all messages
	// match.
	Rules []Rule

	// ForwardTo is a topic or queue to which messages are forwarded instead of being kept.
	// ForwardDeadLettersTo is the same for dead letters.
	ForwardTo            string
	ForwardDeadLettersTo string
}

// Queue declares a queue. See [Topic] and [Subscription].
type Queue struct {
	Name                     string
	DuplicateDetectionWindow time.Duration
	Partitioned              bool
	MaxMessageSize           uint64
	MaxBatchSize             uint64
	DefaultTTL               time.Duration
	RequiresSession          bool
	LockDuration             time.Duration
	MaxDeliveryCount         uint32
	DeadLetterExpired        bool
	Disabled                 bool
	Record                   int
	ForwardTo                string
	ForwardDeadLettersTo     string
}

// Default returns the configuration of the command without arguments: a topic "events" with
// duplicate detection over 10 minutes, and a session subscription "projector" with locks of
// 30 s.
func Default() Config {
	return Config{Topics: []Topic{{
		Name:                     "events",
		DuplicateDetectionWindow: 10 * time.Minute,
		Subscriptions: []Subscription{{
			Name:            "projector",
			RequiresSession: true,
			LockDuration:    30 * time.Second,
		}},
	}}}
}

// Validate returns all problems of the configuration.
func (c *Config) Validate() error {
	var errs []error

	for _, t := range c.Topics {
		errs = append(errs, checkName("topic", t.Name, broker.MaxEntityName), checkWindow("topic "+t.Name, t.DuplicateDetectionWindow))

		for _, s := range t.Subscriptions {
			where := "subscription of topic " + t.Name
			_, err := compile(s.Rules)
			errs = append(errs, err, checkName(where, s.Name, broker.MaxSubscriptionName), checkLock(where+" "+s.Name, s.LockDuration), checkDeliveries(where+" "+s.Name, s.MaxDeliveryCount))
		}
	}

	for _, q := range c.Queues {
		where := "queue " + q.Name
		errs = append(errs, checkName("queue", q.Name, broker.MaxEntityName), checkLock(where, q.LockDuration),
			checkDeliveries(where, q.MaxDeliveryCount), checkWindow(where, q.DuplicateDetectionWindow))
	}

	for _, p := range c.Policies {
		if p.Name == "" || p.Key == "" {
			errs = append(errs, errors.New("a policy needs a name and a key"))
		}
	}

	return errors.Join(errs...)
}

func checkName(what, name string, longest int) error {
	if name == "" || len(name) > longest || strings.ContainsAny(name, " $?#\\\"") || strings.Trim(name, "/") != name {
		return fmt.Errorf("%s: %q is not a valid name", what, name)
	}

	return nil
}

func checkLock(what string, d time.Duration) error {
	if d < 0 || d > broker.MaxLockDuration {
		return fmt.Errorf("%s: a lock lasts up to 5 minutes, not %s", what, d)
	}

	return nil
}

func checkWindow(what string, d time.Duration) error {
	if d != 0 && (d < broker.MinDedupWindow || d > broker.MaxDedupWindow) {
		return fmt.Errorf("%s: duplicates are detected over 20 seconds to 7 days, not %s", what, d)
	}

	return nil
}

func checkDeliveries(what string, n uint32) error {
	if n > broker.MaxMaxDeliveryCount {
		return fmt.Errorf("%s: a message is delivered up to %d times, not %d", what, broker.MaxMaxDeliveryCount, n)
	}

	return nil
}
