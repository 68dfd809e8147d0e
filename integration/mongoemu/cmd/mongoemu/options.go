package main

import (
	"time"

	"github.com/alecthomas/kong"

	"github.com/penstock-cdc/penstock/integration/mongoemu"
)

const description = `A stand-in for MongoDB, for development and tests: a single-node replica set. It prints its ` +
	`connection string and stops on SIGTERM.`

// options are the command's flags.
type options struct {
	Address      string        `help:"Where to listen; port 0 takes a free one." env:"MONGOEMU_ADDRESS" default:"127.0.0.1:27017"`
	ReplicaSet   string        `help:"Name of the replica set." env:"MONGOEMU_REPLICA_SET" default:"rs0"`
	Sharded      bool          `help:"Answer as the mongos of a sharded cluster instead of as a replica set." env:"MONGOEMU_SHARDED"`
	DataDir      string        `help:"Directory to keep everything in, so that it survives a restart; empty: in memory only." env:"MONGOEMU_DATA_DIR"`
	OplogSize    int64         `help:"Bound of the oplog in MiB, negative: none." env:"MONGOEMU_OPLOG_SIZE" default:"256"`
	TTLInterval  time.Duration `help:"Time between two passes over TTL indexes." env:"MONGOEMU_TTL_INTERVAL" default:"60s"`
	NoopInterval time.Duration `help:"Time after which an idle oplog moves on." env:"MONGOEMU_NOOP_INTERVAL" default:"10s"`

	Version kong.VersionFlag `help:"Print the version."`
}

// Validate returns every problem of the flags at once.
func (o *options) Validate() error { return o.config().Validate() }

// config returns the server's configuration.
func (o *options) config() mongoemu.Config {
	return mongoemu.Config{
		Address: o.Address, ReplicaSet: o.ReplicaSet, Sharded: o.Sharded, OplogBytes: o.OplogSize << 20, DataDir: o.DataDir,
		TTLInterval: o.TTLInterval, NoopInterval: o.NoopInterval,
	}
}
