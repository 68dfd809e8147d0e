package mongoemu

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"time"
)

// Config configures a server. The zero Config is a server on a free loopback port with a
// real server's limits.
type Config struct {
	// Address is the host:port to listen on; the port 0 means a free one. Empty means
	// 127.0.0.1:0.
	Address string
	// Listener is used instead of Address, if set. It may have no network behind it: its
	// address is what the server tells drivers to connect to, by a dialer of theirs.
	Listener net.Listener
	// ReplicaSet is the name of the replica set; empty means rs0.
	ReplicaSet string
	// Sharded makes the server answer like the mongos of a sharded cluster with one shard.
	// ReplicaSet is then not visible.
	Sharded bool
	// Users are the passwords of users, by name. If there are any, each connection must
	// authenticate by SCRAM-SHA-256 as one of them, in the database admin. Every user may do
	// everything.
	Users map[string]string
	// OplogBytes bounds the oplog's size; 0 means 256 MiB, negative means no bound.
	OplogBytes int64
	// OplogEntries bounds the number of the oplog's entries; 0 means no bound.
	OplogEntries int
	// DataDir is the directory of the journal, with which the data survive the process,
	// though not a crash of the machine. Empty means that all data are in memory only. The
	// state of sessions, of retryable writes and of open transactions is not kept.
	DataDir string
	// TransactionLifetime is the age at which a transaction has expired; 0 means the server's
	// default of 60 s. Like the server, it looks for expired transactions every half lifetime,
	// clamped to a second and a minute, and aborts them.
	TransactionLifetime time.Duration
	// TTLInterval is the time between two passes over TTL indexes; 0 means the server's
	// default of 60 s.
	TTLInterval time.Duration
	// NoopInterval is how often an idle oplog gets an entry without a change, so that idle
	// change streams advance; 0 means the server's default of 10 s.
	NoopInterval time.Duration
	// Now is the clock of TTL, of transactions and of cluster times; nil means time.Now.
	Now func() time.Time
}

// Limits of Config's defaults.
const (
	defaultOplogBytes  = 256 << 20
	defaultLifetime    = 60 * time.Second
	defaultTTLInterval = 60 * time.Second
	defaultNoop        = 10 * time.Second
	cursorInterval     = time.Minute
)

// Version is the server version in buildInfo, and wireVersion the version in hello: those
// of MongoDB 7.0.
const (
	Version     = "7.0.0"
	wireVersion = 21
)

func (c Config) withDefaults() Config {
	c.Address = cmp.Or(c.Address, "127.0.0.1:0")
	c.ReplicaSet = cmp.Or(c.ReplicaSet, "rs0")
	c.OplogBytes = max(cmp.Or(c.OplogBytes, defaultOplogBytes), 0)
	c.TransactionLifetime = cmp.Or(c.TransactionLifetime, defaultLifetime)
	c.TTLInterval = cmp.Or(c.TTLInterval, defaultTTLInterval)
	c.NoopInterval = cmp.Or(c.NoopInterval, defaultNoop)
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Validate returns all problems of a configuration.
func (c Config) Validate() error {
	var problems []error
	if c.OplogEntries < 0 {
		problems = append(problems, fmt.Errorf("oplog entries must not be negative: %d", c.OplogEntries))
	}
	for name, d := range map[string]time.Duration{
		"transaction lifetime": c.TransactionLifetime, "TTL interval": c.TTLInterval, "noop interval": c.NoopInterval,
	} {
		if d < 0 {
			problems = append(problems, fmt.Errorf("%s must not be negative: %s", name, d))
		}
	}
	return errors.Join(problems...)
}
